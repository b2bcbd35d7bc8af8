"""What happens when in an iteration, as records, a picture and a trace."""
