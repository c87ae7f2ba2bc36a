"""A policy over HTTP."""
