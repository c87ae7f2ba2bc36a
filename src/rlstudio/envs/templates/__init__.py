"""Files to begin with, as `rlctl init` writes them: they pass `rlctl check` and can be trained on."""
