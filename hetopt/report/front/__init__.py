"""The Pareto front of time and price: as a table and a picture."""
