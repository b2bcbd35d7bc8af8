"""Read a site's inventory of nodes as the clusters of a problem."""
