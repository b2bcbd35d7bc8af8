"""Solvers side by side: as data, text and a picture."""
