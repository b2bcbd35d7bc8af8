"""UniAP's program of one (pp_size, c)."""
