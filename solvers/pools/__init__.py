"""Where tasks run, and how they end."""
