"""Slurm: one heterogeneous job for the user's own program."""
