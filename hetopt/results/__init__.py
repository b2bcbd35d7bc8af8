"""Results of solvers: plans, bounds, certificates and costs."""
