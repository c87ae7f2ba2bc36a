"""The sweep that a command names: the one way from a name to a sweep. It only looks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlstudio.core.errors import UserError

if TYPE_CHECKING:
    from rlstudio.control.sweep.sweeps import Sweep
    from rlstudio.control.workspace import Workspace


def find_sweep(workspace: Workspace, name: str) -> Sweep:
    from rlstudio.control.sweep.sweeps import Sweeps

    if workspace.is_empty:
        where = f"there are no runs in {workspace.given_dir} yet"
        raise UserError(f"sweep {name!r}: {where}; start one with: rlctl sweep -f FILE")
    return Sweeps(workspace.records.database).get(name)
