"""Plans stage by stage, as labels: what bounds alone cannot settle."""
