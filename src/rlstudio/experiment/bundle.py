"""The name that `example.py` of bundles made before version 0.2 imports; the way in is `rlstudio.open_bundle`."""

from rlstudio import open_bundle

__all__ = ["open_bundle"]
