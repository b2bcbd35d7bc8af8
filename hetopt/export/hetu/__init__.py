"""Hetu v2: pipelines side by side, a tp of its own for each stage."""
