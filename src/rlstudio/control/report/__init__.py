"""Runs, groups and sweeps as one page that opens anywhere, without a network."""
