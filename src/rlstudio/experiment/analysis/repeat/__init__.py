"""Runs again: a run trained once more and compared with what it was, and a run at any of its past steps."""
