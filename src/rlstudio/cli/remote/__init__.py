"""`rlctl --server URL`: the same commands, options and output for the runs of a server. Torch is never imported."""
