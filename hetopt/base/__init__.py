"""What every room stands on: files, signals, deadlines, compiled functions."""
