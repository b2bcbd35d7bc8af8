"""The proof over (p, q), whatever engine settles its programs."""
