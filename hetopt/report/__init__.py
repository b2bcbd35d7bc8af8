"""Reports for people: tables and lines made from plain data."""
