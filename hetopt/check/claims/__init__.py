"""Check what a result or a front claims: a bound that follows from a tree of claims."""
