"""Monte Carlo tree search, HetAuto's and the guided one."""
