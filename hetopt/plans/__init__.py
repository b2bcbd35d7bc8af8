"""Plans: pipelines of stages, each with its units, cluster and mesh."""
