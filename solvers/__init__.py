"""The engines, and the race over (p, q)."""
