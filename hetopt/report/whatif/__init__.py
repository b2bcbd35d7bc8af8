"""Variants of a problem side by side, and why a plan is as it is."""
