"""Repeating runs: a run trained once more and compared, and a run restored at any of its past steps."""
