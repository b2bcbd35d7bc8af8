"""torchrun: a script per node for a program of the user's."""
