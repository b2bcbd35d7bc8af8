"""``hetopt.plan``, and the search for the best schedule."""
