"""Times of collectives: per micro-batch, and once per iteration."""
