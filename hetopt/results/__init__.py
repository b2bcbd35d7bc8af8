"""What a solver answers: a result, what it proves, and what it costs."""
