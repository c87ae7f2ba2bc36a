"""The version of RLStudio, also of `pyproject.toml`."""

__version__ = "0.1.0"
