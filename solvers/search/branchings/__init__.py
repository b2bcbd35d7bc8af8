"""Ways to split a problem into others: fleets, schedules, divisions, spaces."""
