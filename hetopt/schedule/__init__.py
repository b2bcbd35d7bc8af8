"""When things run: warm-up counts, period, event simulation."""
