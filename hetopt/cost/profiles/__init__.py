"""Latency profiles: files of measured shards, ours and those of other planners."""
