"""The model to train: kinds of units, architecture, experts."""
