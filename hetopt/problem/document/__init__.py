"""A problem's text as data: the file and line of every value, and changes to it."""
