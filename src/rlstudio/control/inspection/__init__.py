"""Is everything that was stored still whole? It only looks; `rlctl doctor` prints it."""
