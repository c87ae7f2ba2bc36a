"""Models that choose or rate actions, and the distributions they give."""
