"""An asynchronous run once more, bit for bit: from its config and from its log of fragments.

Which fragments make an update of such a run is decided by who is first. The log has what was decided, and a fragment
is a function of its slice, of the version of the weights and of the seeds. So the same updates are made again in this
process, one fragment after the other as it is due.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from rlstudio.core.contracts import FragmentRound
from rlstudio.core.errors import UserError
from rlstudio.core.run_state import RunState
from rlstudio.experiment.checkpoint.checkpoints import Checkpoints, Loaded
from rlstudio.experiment.config.experiment import new_run
from rlstudio.experiment.config.sections import RegisterConfig, TrackingConfig
from rlstudio.experiment.folder.run_folder import RunFolder
from rlstudio.experiment.metrics.fragment_log import FragmentLog
from rlstudio.experiment.run.load import choose, read_config
from rlstudio.experiment.run.session import Session
from rlstudio.experiment.training.build import build


class Repeated(NamedTuple):
    """The state of the run in its newest checkpoint, and as it came out now."""

    env_steps: int
    recorded: str
    repeated: str

    @property
    def same(self) -> bool:
        """Whether every bit is."""
        return self.recorded == self.repeated


def repeat_run(folder: RunFolder) -> Repeated:
    """The run is only read; what is trained again lies in a temporary folder meanwhile."""
    cfg = read_config(folder)
    if cfg.rollout.mode != "async":
        raise UserError(
            f"run {folder.id}: rollout.mode is {cfg.rollout.mode}, whose bits its config alone decides; launch it again"
        )
    kinds = {event.get("kind") for event in folder.events()}
    if "rolled_back" in kinds:
        raise UserError(f"run {folder.id}: it was rolled back, and the log has nothing of what was undone")
    if "extended" in kinds:
        raise UserError(f"run {folder.id}: it was made longer, and began with schedules that are not in its config now")
    loaded = choose(Checkpoints(folder.path, folder.id, lease=None), folder, "last", segments=False)
    rounds = {one.version: one.fragments for one in _rounds(folder, loaded)}
    again = cfg.model_copy(update={"tracking": TrackingConfig(), "register": RegisterConfig()})
    with TemporaryDirectory() as place:
        built = build(again, rounds=rounds)
        copy = RunFolder.create(Path(place), new_run(again))
        with closing(Session.open(copy, again, built=built)) as session:
            _train(session, folder, loaded)
            return Repeated(loaded.info.step, loaded.info.state_hash, session.status.state_hash or "")


def _rounds(folder: RunFolder, loaded: Loaded) -> list[FragmentRound]:
    """Those of the log until the checkpoint, and those that it has itself since the last report."""
    collector = loaded.content["trainer_state"]["source"]["collector"]
    held = [FragmentRound.from_json(one) for one in collector["fragments"]]
    newest = int(collector["version"])
    return [*(one for one in FragmentLog(folder.path).rounds() if one.version <= newest), *held]


def _train(session: Session, folder: RunFolder, loaded: Loaded) -> None:
    """As far as the checkpoint is. One that came with the end of the run has the evaluation after training in it."""
    is_ended = folder.read_status().state == RunState.COMPLETED
    target = loaded.info.step, loaded.info.fields["gradient_steps"]
    ticks = iter(session)
    for tick in ticks:
        if not is_ended and (tick.env_steps, tick.gradient_steps) == target:
            break
    ticks.close()  # what was left is saved
