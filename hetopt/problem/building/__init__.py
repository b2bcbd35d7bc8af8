"""Build a problem from the fields of its file: defaults, presets, cross-checks."""
