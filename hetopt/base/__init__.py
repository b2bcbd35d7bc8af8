"""What other packages use: files, signals, deadlines, compiled functions."""
