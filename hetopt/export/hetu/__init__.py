"""Hetu v2: pipelines side by side, each stage with its own tp."""
