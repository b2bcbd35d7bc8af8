"""A plan as one page that needs no network: a file for each of its sections."""
