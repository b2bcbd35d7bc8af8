"""The linear program of moving slices of states between devices in the least time."""
