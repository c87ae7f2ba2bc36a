"""PettingZoo environments: many agents as columns of a vector, stepped in this process or in worker processes."""
