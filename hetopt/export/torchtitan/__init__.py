"""TorchTitan: a configuration with the plan's schedule and cut."""
