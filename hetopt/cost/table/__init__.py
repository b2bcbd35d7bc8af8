"""The latency table: every coefficient that a solver reads."""
