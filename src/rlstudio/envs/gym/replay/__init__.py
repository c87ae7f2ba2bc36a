"""Putting plain Gymnasium envs back where they were, by replaying their recorded actions."""
