"""The text of a problem: where every value stands, and changes to it."""
