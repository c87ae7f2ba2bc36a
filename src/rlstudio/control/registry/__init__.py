"""Versions of trained policies and which one is in production."""
