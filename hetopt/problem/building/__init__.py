"""From the fields of a problem file to the nouns: defaults, presets, cross-checks."""
