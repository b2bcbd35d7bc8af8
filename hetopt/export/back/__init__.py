"""Turns a runtime's files into a plan, and explains why hetopt's plan is faster."""
