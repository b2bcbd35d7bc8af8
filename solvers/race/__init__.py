"""The proof over all (p, q), with any engine that settles their programs."""
