"""What things cost: latency table, communication, memory."""
