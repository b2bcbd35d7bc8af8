"""Measured operators: single kernels, whose times add up to those of units."""
