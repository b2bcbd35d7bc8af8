"""Accelerators, clusters, nodes, and how stages lie in them."""
