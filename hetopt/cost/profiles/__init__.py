"""Latency profiles: files of measured shards, ours and other planners'."""
