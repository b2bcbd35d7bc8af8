"""FlagScale: each cluster has its own dp and tp."""
