"""The fields of a problem file: which there are, and what each may hold."""
