"""The arrays that compiled searches read."""
