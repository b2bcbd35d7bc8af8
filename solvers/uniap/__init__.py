"""One strategy per layer on one homogeneous cluster (UniAP)."""
