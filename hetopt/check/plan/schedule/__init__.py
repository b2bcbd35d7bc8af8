"""The checker's own schedules and times of pipelines, written for readability."""
