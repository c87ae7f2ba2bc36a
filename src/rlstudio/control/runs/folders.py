"""The folder of a run that the store knows, made where there is none yet, and what it may not decide here. Free of
torch."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rlstudio.control.store.records import RunRow
from rlstudio.control.workspace import Workspace
from rlstudio.core.errors import Notice, UserError
from rlstudio.experiment.folder.new_run import NewRun
from rlstudio.experiment.folder.run_folder import RunFolder
from rlstudio.experiment.lineage.lineage import EVENT

if TYPE_CHECKING:
    from rlstudio.experiment.config.experiment import ExperimentConfig


def folder_of(workspace: Workspace, run: RunRow) -> RunFolder:
    """The run's folder; made from what the store knows where it has none yet."""
    folder = workspace.folder(run.id)
    if not folder.exists:
        if workspace.store.checkpoints(run.id):
            # It is elsewhere, or was deleted: to begin anew under the same name would pass for going on.
            raise UserError(
                f"run {run.id}: its folder is not in {workspace.given_dir}; name where it is with --runs-dir"
            )
        new = NewRun.from_status(run.status, workspace.store.config_yaml(run.id))
        folder = RunFolder.create(workspace.runs_dir, new, state=run.state, run_id=run.id)
        folder.event(EVENT, **workspace.store.lineage(run.id))
        folder.close()
    return folder


def without_addresses(cfg: ExperimentConfig, origin: str, overrides: Sequence[str] = ()) -> ExperimentConfig:
    """The experiment of somebody else (`origin`: a run that was not launched here, or a bundle) without the places that
    it names: sinks outside the run's folder, a cluster's address. What `overrides` name is the user's own choice."""
    own = {override.partition("=")[0].strip().partition(".")[0] for override in overrides}
    tracking, resources = cfg.tracking, cfg.resources
    if "tracking" not in own and (left_out := [sink.kind for sink in tracking.outside_sinks()]):
        tracking = tracking.model_copy(update={"sinks": tuple(tracking.inside_sinks())})
        warnings.warn(
            f"{origin}: was not launched here, so nothing is sent to {', '.join(left_out)}, as its config says; send"
            f" what it measured with: rlctl send RUN --to {left_out[0]}",
            Notice,
            stacklevel=2,
        )
    if "resources" not in own:
        resources = resources.model_copy(update={"address": "auto"})
    return cfg.model_copy(update={"tracking": tracking, "resources": resources})
