"""The folder of a run that the store knows, made where there is none yet. Free of torch."""

from __future__ import annotations

from rlstudio.control.store.records import RunRow
from rlstudio.control.workspace import Workspace
from rlstudio.core.errors import UserError
from rlstudio.experiment.folder.new_run import NewRun
from rlstudio.experiment.folder.run_folder import RunFolder
from rlstudio.experiment.lineage.lineage import EVENT


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
