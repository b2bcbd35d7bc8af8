"""Correcting a latency table by what engineers' own runs took."""
