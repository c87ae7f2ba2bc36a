"""Displays that are redrawn while a run goes on."""
