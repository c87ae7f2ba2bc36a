"""What a command that repeats a run ends with where it came to something else."""

NOT_THE_SAME = 10
"""The same settings gave other numbers; what changed is printed."""

CANNOT_BE = 11
"""It never could give the same numbers; the reason is printed."""
