"""Runs solvers one after the other on a problem, and keeps what each of them finds."""
