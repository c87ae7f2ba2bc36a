"""The HTTP API: thin routes over `control`."""
