"""One run in one process, from its config to its result."""
