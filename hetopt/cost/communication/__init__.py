"""What collectives take: in a micro-batch, and once per iteration."""
