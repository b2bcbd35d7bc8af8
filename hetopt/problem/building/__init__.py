"""Sections of a problem beside each other, and models from config.json files."""
