"""Patterns of names that more than one room checks. Free of pydantic: `rlctl models` must not wait for it."""

MODEL_NAME = r"[a-z0-9][a-z0-9_.-]{0,63}"
"""A model in the registry: a name and nothing else, not a path, not an option."""
