"""Correcting a latency table by measured runs."""
