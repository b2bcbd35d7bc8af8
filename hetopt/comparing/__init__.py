"""Solvers run one after the other, and what they found."""
