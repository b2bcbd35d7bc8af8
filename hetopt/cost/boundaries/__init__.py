"""Cost of sending tensors from one stage to the next."""
