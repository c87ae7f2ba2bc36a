"""Worlds with many levels, chosen by a parameter."""
