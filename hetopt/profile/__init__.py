"""Measuring how long shards of a model compute, with PyTorch (an extra)."""
