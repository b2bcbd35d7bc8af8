"""From a runtime's files back to a plan, and what makes it slower than hetopt's."""
