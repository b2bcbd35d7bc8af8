"""Costs of plans with one strategy per unit (UniAP)."""
