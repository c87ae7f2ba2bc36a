"""What a Model says of itself: its Protocol, and the plain tuples that it speaks in."""
