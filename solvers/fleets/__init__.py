"""Which nodes to rent: plans of least cost, within a budget, and their front."""
