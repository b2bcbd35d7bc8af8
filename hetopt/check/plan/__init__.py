"""Checks of every answer: rules, units, times, memory, a result's claims."""
