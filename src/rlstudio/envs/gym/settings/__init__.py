"""Parameters of plain Gymnasium envs: where they are in an env, and an env with the parameters of its episode."""
