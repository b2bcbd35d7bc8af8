"""Measure times of shards, kernels and collectives with PyTorch (an extra)."""
