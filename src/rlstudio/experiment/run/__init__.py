"""A run from start to end: session, resume, fork, signals; and its agent afterwards."""
