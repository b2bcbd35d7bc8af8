"""One best-first search over a tree of problems, with one tree of claims."""
