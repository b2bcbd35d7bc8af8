"""What searches that prove nothing share: heuristics and tree search."""
