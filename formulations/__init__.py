"""The mathematics: what may be chosen, what must hold, what is minimised."""
