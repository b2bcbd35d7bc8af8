"""The text of a problem: the place of every value, and edits."""
