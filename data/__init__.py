"""Accelerators, models and problem files that ship with hetopt."""
