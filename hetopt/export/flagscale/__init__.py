"""FlagScale: a dp and a tp of its own for each cluster."""
