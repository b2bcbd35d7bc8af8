"""Comparisons of solvers, which run one after the other."""
