"""Replanning after devices are lost or added, and the states that have to move."""
