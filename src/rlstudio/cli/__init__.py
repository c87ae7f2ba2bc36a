"""`rlctl`: the command line."""
