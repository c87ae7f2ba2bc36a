"""Checks that everything stored is still whole, without changing it; `rlctl doctor` prints the result."""
