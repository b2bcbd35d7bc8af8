"""What a person sees: tables and lines from pure data."""
