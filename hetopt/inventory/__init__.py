"""What sites have and know of their nodes, as the clusters of a problem."""
