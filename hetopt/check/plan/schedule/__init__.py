"""The checker's own schedules and times of pipelines, written to be read."""
