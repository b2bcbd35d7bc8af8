"""HexiScale: pipelines side by side, under GPipe."""
