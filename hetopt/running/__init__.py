"""Runs a plan's training program here, and compares its times with the plan's."""
