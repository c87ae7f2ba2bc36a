"""Metrics on their way to tools of others: a process of its own, or `rlctl send`."""
