"""Accelerators, clusters, nodes, and how stages are placed in them."""
