"""A `gymnasium.vector.VectorEnv` of the user's behind the vector contract."""
