"""The fields of a problem file and the values of each."""
