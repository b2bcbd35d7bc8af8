"""Pipelines side by side: which nodes and how much of the batch each one gets."""
