"""Measured operators: single kernels, from which the times of units are added up."""
