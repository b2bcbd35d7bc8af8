"""Checks of ``hetopt verify`` only: bounds derived again, plans searched again."""
