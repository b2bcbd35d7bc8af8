"""Solvers: the engines, and the race over (p, q)."""
