"""`rlctl --server URL`: the same commands, options and output, of runs that a server has. Torch is never imported."""
