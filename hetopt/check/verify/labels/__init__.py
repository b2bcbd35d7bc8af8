"""Labels: plans made stage by stage, for programs that bounds alone do not settle."""
