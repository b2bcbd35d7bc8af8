"""Costs of plans whose units have strategies of their own (UniAP)."""
