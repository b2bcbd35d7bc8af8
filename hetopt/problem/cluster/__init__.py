"""Accelerators, clusters and nodes, and which stages fit into the nodes."""
