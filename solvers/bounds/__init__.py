"""Lower bounds on every (p, q)."""
