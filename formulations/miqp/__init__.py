"""HetAuto's quadratic program of one (p, q)."""
