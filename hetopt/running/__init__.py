"""Starts a plan's training program here, and holds what it took against the plan."""
