"""How pipelines side by side share sequences of several lengths."""

from hetopt.formulations.cp_sat import library

library.load()
