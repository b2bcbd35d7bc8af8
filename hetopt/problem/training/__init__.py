"""Training settings, sequence lengths, and what plans have to obey."""
