"""Several policies that act in the same environments, each learning from its own agents."""
