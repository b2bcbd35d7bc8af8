"""A training program of hetopt's own that runs any plan, on PyTorch alone."""
