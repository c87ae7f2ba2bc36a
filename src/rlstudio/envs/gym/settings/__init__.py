"""Parameters of plain Gymnasium envs: where they are in an env, and an env that has those of its episode."""
