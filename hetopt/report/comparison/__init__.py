"""A comparison of solvers: as data, as text and as a picture."""
