"""Seats: who plays the agents of an environment that do not learn."""
