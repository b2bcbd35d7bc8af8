"""The latency table as a file: writing it, and reading with errors by field."""
