"""Commands that train a run again: from its start, or to a step of its past."""
