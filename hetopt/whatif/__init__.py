"""Variants of a problem: how they are made, and how they are solved together."""
