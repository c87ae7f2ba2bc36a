"""The name that `example.py` of older bundles imports, from before there was `rlstudio.open_bundle`."""

from rlstudio import open_bundle

__all__ = ["open_bundle"]
