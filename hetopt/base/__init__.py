"""The base of all other packages: files, signals, deadlines, compiled functions."""
