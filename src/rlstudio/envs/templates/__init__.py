"""Templates that `rlctl init` writes: they pass `rlctl check` and can be trained on."""
