"""Particle worlds of MPE2 in array code: discs on a plane that push each other, in one step for all environments."""
