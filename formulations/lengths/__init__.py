"""Which pipelines side by side take which sequences, where lengths differ."""

from hetopt.formulations.cp_sat import library

library.load()
