"""Heuristics: quick searches that prove nothing."""
