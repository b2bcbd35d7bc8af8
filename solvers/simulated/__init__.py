"""The search for the least simulated time, and its proof."""
