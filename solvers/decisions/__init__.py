"""A choice, and what it is worth."""
