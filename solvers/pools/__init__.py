"""Pools that run tasks: in this process, in others, or on a Ray cluster."""
