"""The exact dynamic program."""
