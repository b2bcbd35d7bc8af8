"""Slurm: one heterogeneous job for a program of the user's."""
