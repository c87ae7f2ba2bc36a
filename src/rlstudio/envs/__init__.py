"""Environments as vectors that step together, seeded by episode and sought again on resume."""
