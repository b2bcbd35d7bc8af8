"""Plans built stage by stage as labels, for claims that bounds do not settle."""
