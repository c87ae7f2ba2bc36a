"""Curricula: how the parameters of coming episodes change with what the run has achieved. Pure state machines."""
