"""torch.distributed.pipelining, with a training program that uses it."""
