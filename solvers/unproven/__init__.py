"""Shared code of the searches without proof: heuristics and tree search."""
