"""Training settings, lengths of sequences, pins, and the principles of plans."""
