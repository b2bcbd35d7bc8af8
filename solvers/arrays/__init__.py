"""What compiled searches read."""
