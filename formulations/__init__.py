"""The mathematical programs: decisions, constraints and objectives."""
