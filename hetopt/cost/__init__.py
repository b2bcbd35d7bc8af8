"""Cost model: latency table, communication, memory."""
