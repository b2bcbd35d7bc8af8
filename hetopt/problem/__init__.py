"""What the user gives: model, clusters, links, training settings, pins."""
