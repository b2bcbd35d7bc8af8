"""The CP-SAT program of one (p, q)."""
