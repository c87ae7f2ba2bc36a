"""Policies that a command names: runs, bundles and versions, loaded to act."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rlstudio.cli.arguments.selection import Selection
from rlstudio.core.errors import UserError

if TYPE_CHECKING:
    from rlstudio.delivery.policies import TrainedPolicy


def named_policies(selection: Selection, runs_dir: Path) -> list[str]:
    """Bundles and versions as they were named, runs by their ids."""
    from rlstudio.control.registry.bundles import names_bundle
    from rlstudio.control.workspace import Workspace

    bundles = [word for word in selection.words or () if names_bundle(word)]
    if bundles and selection.filters:
        raise UserError(f"{bundles[0]}: is no run, so no filter fits; leave one of them out")
    workspace, policies = Workspace(runs_dir), list[str]()
    if not selection.words:
        return [entry.id for entry in selection.entries(workspace)]
    for word in selection.words:
        alone = replace(selection, words=[word])
        policies += [word] if word in bundles else [entry.id for entry in alone.entries(workspace)]
    return list(dict.fromkeys(policies))


def load_policy(
    run: str, checkpoint: str, runs_dir: Path, imports: Sequence[str], *, networks: bool = False
) -> TrainedPolicy:
    """`networks`: a planner needs them; the graph of a bundle can only act."""
    from rlstudio.control.registry.bundles import named_bundle
    from rlstudio.experiment.config.imports import import_modules

    names = import_modules(imports, runs_dir=runs_dir)
    bundle = named_bundle(run, runs_dir)
    if bundle is not None:
        if checkpoint != "last":
            raise UserError(f"--checkpoint: the bundle {run} has one policy; leave it out")
        from rlstudio.delivery.policies import policy_of_bundle

        return policy_of_bundle(bundle, names, networks=networks)
    from rlstudio.control.workspace import Workspace

    folder = Workspace(runs_dir).folder_to_load(run)
    from rlstudio.delivery.policies import policy_of_run

    return policy_of_run(folder, checkpoint)
