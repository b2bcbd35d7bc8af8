"""hetopt's own training program, which needs PyTorch alone."""
