"""What a plan costs in a latency table: times and memory."""
