"""Where compute times come from: a roofline, or a forest of a profile."""
