"""What a solver answers: plans with their times and prices, and what is proven."""
