"""Self-play: whom the learner meets, the pool of its past selves, and how strong they are."""
