"""Worlds whose parameters are drawn for each episode."""
