"""Past transitions: the ring, its rows and frames, priorities, and samples of it as a source."""
