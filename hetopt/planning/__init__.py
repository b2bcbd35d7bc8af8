"""``hetopt.plan``, and the search of the best schedule."""
