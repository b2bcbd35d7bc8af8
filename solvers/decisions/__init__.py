"""Decisions: their plans, exact objectives, and copies among identical clusters."""
