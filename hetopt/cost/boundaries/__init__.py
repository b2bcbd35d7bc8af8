"""What it takes to hand tensors from one stage to the next."""
