"""Environments as vectors that step together, seeded by episode and put back in place on resume."""
