"""What a proof claims, and searching it again."""
