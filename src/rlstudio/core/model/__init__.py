"""How a Model describes itself: its Protocol, and the plain tuples of that description."""
