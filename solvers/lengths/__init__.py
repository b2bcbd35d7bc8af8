"""Pipelines that take sequences of several lengths: which ones, and how many."""
