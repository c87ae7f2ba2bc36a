"""Parameters of environments: what they are drawn from, and how they reach an environment."""
