"""The least simulated time, and its proof."""
