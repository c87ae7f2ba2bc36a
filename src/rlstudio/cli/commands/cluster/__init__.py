"""Commands for clusters: what they have, and which runs are where."""
