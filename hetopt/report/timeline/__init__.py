"""The timeline of an iteration, as records, a picture and a trace."""
