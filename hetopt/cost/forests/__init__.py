"""Forests: times of kernels and of shards, learnt from measured ones."""
