"""Schedules: warm-up counts, the period and the event simulation."""
