"""Self-play: the opponents of the learner, the pool of its snapshots, and how strong they are."""
