"""A bundle by its folder, or by the version of a model that it is: `cartpole:3`, `cartpole:production`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rlstudio.delivery.bundle import Bundle


def names_bundle(what: str) -> bool:
    """Whether this is a bundle or a version, and no run."""
    from rlstudio.control.registry.records import is_reference
    from rlstudio.delivery.bundle import is_bundle

    return is_reference(what) or is_bundle(what)


def named_bundle(what: str, runs_dir: Path) -> Bundle | None:
    """The bundle, verified to the last byte; None where `what` is neither a bundle nor a version: then it names a run.
    A folder whose name looks like a version must be given as ./NAME:3, so that it never replaces a release."""
    from rlstudio.control.registry.records import is_reference
    from rlstudio.delivery.bundle import is_bundle, open_bundle

    if is_reference(what):
        from rlstudio.control.registry.releases import Releases
        from rlstudio.control.workspace import Workspace

        releases = Releases(Workspace(runs_dir))
        return releases.bundle(releases.find(what))
    return open_bundle(what) if is_bundle(what) else None
