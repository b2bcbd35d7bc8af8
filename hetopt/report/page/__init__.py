"""A plan as one HTML page without network access: a module per section."""
