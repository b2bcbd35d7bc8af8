"""Draws reports: tables, labelled lines, bars and pictures."""
