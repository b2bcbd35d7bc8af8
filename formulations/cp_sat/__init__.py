"""The CP-SAT program of one (p, q)."""

from hetopt.formulations.cp_sat import library

library.load()
