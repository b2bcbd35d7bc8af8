"""Training settings, sequence lengths, and rules that plans have to keep."""
