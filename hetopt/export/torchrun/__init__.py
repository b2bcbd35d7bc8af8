"""torchrun: a script per node for the user's own program."""
