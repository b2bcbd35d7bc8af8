"""The interval cover of one (p, q), a linear program."""
