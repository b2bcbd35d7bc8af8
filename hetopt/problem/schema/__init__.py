"""The JSON Schema of a problem file, and where its fields belong."""
