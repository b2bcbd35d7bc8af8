"""The latency table as a file: written, and read with errors that name the field."""
