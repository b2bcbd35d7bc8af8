"""The best plan that a launcher can run."""
