"""The search for the best plan that a launcher can run."""
