"""Comparisons of solvers: as data, text and a picture."""
