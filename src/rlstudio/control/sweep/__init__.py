"""Searching the settings of an experiment."""
