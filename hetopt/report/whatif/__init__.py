"""Reports on variants of a problem, and on what limits a plan."""
