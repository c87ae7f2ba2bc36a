"""Runs that wait for a slot, and the processes that serve them."""
