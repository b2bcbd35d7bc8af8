"""Writes the latency table as a file, and reads it; errors name the field."""
