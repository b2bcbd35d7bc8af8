"""Mixed-integer programs in HiGHS, SCIP and Gurobi."""
