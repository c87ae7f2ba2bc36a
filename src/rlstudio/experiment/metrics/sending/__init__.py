"""Sending metrics to other tools, from a process of its own or with `rlctl send`."""
