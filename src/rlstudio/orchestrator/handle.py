"""A run as Python holds it: what it is now, what it measured, and what can be done to it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlstudio.control.lifecycle import Desired
from rlstudio.control.workspace import Workspace
from rlstudio.core.errors import UserError
from rlstudio.core.run_state import OWNED, RunState
from rlstudio.orchestrator.live import Live, describe

if TYPE_CHECKING:
    from rlstudio.agents.agent import Agent
    from rlstudio.control.store.records import Event
    from rlstudio.experiment.analysis.repeat.comparison import Verdict
    from rlstudio.experiment.analysis.repeat.from_log import Repeated
    from rlstudio.experiment.analysis.repeat.rewind import Rewound
    from rlstudio.experiment.config.experiment import ExperimentConfig
    from rlstudio.experiment.folder.status import Status
    from rlstudio.experiment.judging.evaluate import Evaluation
    from rlstudio.experiment.lineage.lineage import Lineage
    from rlstudio.experiment.run.session import Session
    from rlstudio.experiment.training.environments import EnvObject
    from rlstudio.experiment.training.loop import Tick

POLL_SECONDS = 0.1
ACTIVE = OWNED | {RunState.QUEUED}


class Run:
    """A handle on one run, by its id. Every property is read anew at each access."""

    def __init__(self, workspace: Workspace, run_id: str) -> None:
        self.id = run_id
        self._workspace = workspace

    # -- looking ----------------------------------------------------------------------------------------------------

    @property
    def status(self) -> Status:
        """State, progress and last evaluation, as they are now. Reading it changes nothing: see `recorded`."""
        return self._workspace.find(self.id).status

    @property
    def state(self) -> RunState:
        """QUEUED, RUNNING, COMPLETED, ... as it is now."""
        return self.status.state

    @property
    def recorded(self) -> bool:
        """False if its process is gone but the store does not say so yet; a worker, or a call that acts on the run,
        records it."""
        return self._workspace.find(self.id).recorded

    @property
    def handle(self) -> str:
        """Its short name in `rlctl`."""
        return self._workspace.references().handle(self.id)

    @property
    def tags(self) -> tuple[str, ...]:
        """Its tags; `runs(tags=["paper"])` finds it by one of them."""
        row = self._workspace.find(self.id).run
        return () if row is None else row.tags

    @property
    def note(self) -> str:
        """What its user wrote about it."""
        row = self._workspace.find(self.id).run
        return "" if row is None else row.note

    @property
    def path(self) -> Path:
        """The folder of the run."""
        return self._workspace.folder(self.id).path

    @property
    def config(self) -> ExperimentConfig:
        """The experiment it runs, with every default written out."""
        from rlstudio.experiment.run.load import read_config

        return read_config(self._workspace.folder_to_load(self.id))

    @property
    def lineage(self) -> Lineage:
        """Command, code, versions, host and hardware it was launched with."""
        return self._workspace.find(self.id).lineage()

    @property
    def parent(self) -> Run | None:
        """The run it was forked from."""
        row = self._workspace.find(self.id).run
        return None if row is None or row.parent_id is None else Run(self._workspace, row.parent_id)

    def history(self) -> list[Event]:
        """Every change of its state, oldest first."""
        return self._workspace.find(self.id).history()

    def metrics(self, *keys: str) -> Any:
        """Its metrics: with pandas a DataFrame by environment steps, with a column for each metric; without pandas a
        dict of metric -> (steps, values) as arrays. `keys`: which metrics; by default all."""
        import numpy as np

        from rlstudio.experiment.metrics.indexed.index import read_series

        series = read_series(self._workspace.folder_to_read(self.id).path, set(keys) or None)
        missing = [key for key in keys if key not in series]
        if missing:
            known = ", ".join(sorted(read_series(self.path))) or "none yet"
            raise UserError(f"run {self.id}: no metric {missing[0]!r}; it has: {known}")
        try:
            import pandas as pd
        except ModuleNotFoundError:
            return {key: (np.array(steps), np.array(values)) for key, (steps, values) in series.items()}
        columns = {key: pd.Series(values, index=steps) for key, (steps, values) in series.items()}
        # A step may be recorded twice, by an epoch and by the evaluation after training: the later value counts.
        columns = {key: column[~column.index.duplicated(keep="last")] for key, column in columns.items()}
        return pd.DataFrame(columns).sort_index().rename_axis("env_steps")

    def repeat(self) -> Repeated:
        """Train a run with asynchronous workers once more, from its log of which fragments made which update, as far as
        its newest checkpoint; `.same` says whether every bit came out the same. The run is only read."""
        from rlstudio.experiment.analysis.repeat.from_log import repeat_run

        return repeat_run(self._workspace.folder_to_load(self.id))

    def agent(self, checkpoint: str = "last") -> Agent:
        """The trained agent (`last`, `best` or a number of steps): `agent.act(observation)`."""
        from rlstudio.experiment.run.load import load_run

        return load_run(self._workspace.folder_to_load(self.id), checkpoint).agent

    def evaluate(self, episodes: int = 20, checkpoint: str = "last", seed: int | None = None) -> Evaluation:
        """Play greedy episodes in the real environment: `.summary.mean`, `.summary.ci_low`, ..."""
        from rlstudio.experiment.judging.evaluate import evaluate
        from rlstudio.experiment.run.load import load_run

        loaded = load_run(self._workspace.folder_to_load(self.id), checkpoint)
        used = loaded.cfg.env.seed if seed is None else seed
        whom = loaded.cfg.eval.opponents
        return evaluate(loaded.agent, loaded.cfg.eval_env, episodes=episodes, seed=used, opponents=whom)

    def reproduce(
        self, *overrides: str, epochs: int | None = None, env: EnvObject = None, progress: bool = True
    ) -> Verdict:
        """Train it once more from its stored config and seed, and compare: `.word` is "identical", "different" or
        "cannot be identical"; `.first`, `.changes`, `.reasons`. `epochs`: only so many of its first epochs. `env`: as
        in `session`."""
        from rlstudio.control.runs.reproduce import reproduce
        from rlstudio.core.errors import Diverged, EnvFault, GateFailed
        from rlstudio.experiment.training.environments import bind

        if env is not None:
            bind(env, self.status.env_id, self.id)
        repetition = reproduce(self._workspace, self._workspace.find(self.id), overrides, epochs=epochs)
        for session in repetition.sessions():
            with suppress(Diverged, EnvFault, GateFailed):  # as the run may have ended too
                train(session, self._workspace, progress, repetition.ticks(session))
        return repetition.verdict()

    def rewind(
        self, step: int, *, attempt: int | None = None, allow_inexact: bool = False, env: EnvObject = None
    ) -> Rewound:
        """Restore a past step, bit for bit, in a copy: `with run.rewind(20_000) as moment:` gives `moment.trainer`,
        `.session` and `.state_hash()`, and `moment.advance()` does the next train step. `attempt`: which attempt of a
        run that was rolled back. `env`: as in `session`."""
        from rlstudio.experiment.analysis.repeat.rewind import way_to
        from rlstudio.experiment.training.environments import bind

        if env is not None:
            bind(env, self.status.env_id, self.id)
        folder = self._workspace.folder_to_load(self.id)
        return way_to(folder, step, attempt=attempt, allow_inexact=allow_inexact).open()

    # -- saying something about it ----------------------------------------------------------------------------------

    def tag(self, *tags: str) -> Run:
        """Add tags by which to find it."""
        return self._tagged(tags, remove=False)

    def untag(self, *tags: str) -> Run:
        """Remove tags."""
        return self._tagged(tags, remove=True)

    def write_note(self, note: str) -> Run:
        """Replace its note; an empty one removes it."""
        from rlstudio.control.runs.labels import write_note

        write_note(self._workspace, [self._workspace.find(self.id)], note)
        return self

    def _tagged(self, tags: tuple[str, ...], *, remove: bool) -> Run:
        from rlstudio.control.runs.labels import tag_runs

        for tag in tags:
            tag_runs(self._workspace, [self._workspace.find(self.id)], tag, remove=remove)
        return self

    # -- steering ---------------------------------------------------------------------------------------------------

    def wait(self, timeout: float | None = None, *, progress: bool = True) -> Run:
        """Wait until it has ended, with a live line. After `timeout` seconds TimeoutError is raised, and the run goes
        on."""
        live, started = Live(progress), time.monotonic()
        while (status := self.status).state in ACTIVE:
            live.show(status)
            if timeout is not None and time.monotonic() - started >= timeout:
                raise TimeoutError(f"run {self.id}: is {status.state} after {timeout:g} s; it goes on")
            time.sleep(POLL_SECONDS)
        live.show(status, over=True)
        return self

    def stop(self) -> Run:
        """Stop it at its next safe point, with a checkpoint; `resume` continues it."""
        return self._end(Desired.STOP)

    def pause(self) -> Run:
        """Stop it at its next safe point so that it keeps its place in the queue; `resume` puts it back there."""
        return self._end(Desired.STOP, pause=True)

    def cancel(self) -> Run:
        """Take it out of the queue, or end it for good."""
        return self._end(Desired.CANCEL)

    def resume(self, *overrides: str, env: EnvObject = None, notify: Sequence[str] = (), progress: bool = True) -> Run:
        """Continue it in this process until it is done; `train.epochs=N` extends it. A paused run goes back to its
        place in the queue instead: `run.resume().wait()`. `env`, `notify`: as in `session`."""
        from rlstudio.control.queue.service import ensure_worker
        from rlstudio.control.runs.adopt import known_run
        from rlstudio.control.runs.start import requeue

        known = known_run(self._workspace, self.id)
        if known.is_paused:
            requeue(self._workspace, known, overrides, notify=notify)
            ensure_worker(self._workspace)
            return self
        return train(self.session(*overrides, env=env, notify=notify), self._workspace, progress)

    def session(self, *overrides: str, env: EnvObject = None, notify: Sequence[str] = ()) -> Session:
        """Continue it in this process, in a loop of your own: `with run.session() as session: for tick in session`.
        `env`: for a run that was started with an environment of Python, the same one, if this process does not have it
        yet. `notify`: a command that receives how it ended, instead of the one it was launched with."""
        from rlstudio.control.runs.adopt import known_run
        from rlstudio.control.runs.start import resume_session
        from rlstudio.experiment.training.environments import bind

        if env is not None:
            bind(env, self.status.env_id, self.id)
        return resume_session(self._workspace, known_run(self._workspace, self.id), overrides, notify=notify)

    def fork(
        self,
        *overrides: str,
        at: str = "last",
        seed: int | None = None,
        name: str | None = None,
        notify: Sequence[str] = (),
    ) -> Run:
        """Put a child run into the queue that starts from one of its checkpoints. Without `name` it is called by its
        parent's name with `-fork`."""
        from rlstudio.control.queue.service import ensure_worker
        from rlstudio.control.runs.adopt import known_run
        from rlstudio.control.runs.fork import fork_later

        settings = [*overrides, *named_settings(seed, name)]
        child = fork_later(self._workspace, known_run(self._workspace, self.id), at, settings, notify=notify)
        ensure_worker(self._workspace)
        return Run(self._workspace, child.id)

    def _end(self, desired: Desired, *, pause: bool = False) -> Run:
        from rlstudio.control.runs.stop import EndRequest

        EndRequest(self._workspace, self.id, desired, pause=pause).deliver()
        return self

    def __repr__(self) -> str:
        return f"<Run {self.id}: {describe(self.status)}>"


def train(session: Session, workspace: Workspace, progress: bool, ticks: Iterable[Tick] | None = None) -> Run:
    """Iterate a session to its end, with a live line; returns its run. `ticks`: its own, seen by somebody else too."""
    live = Live(progress)
    with session:
        for _ in session if ticks is None else ticks:
            live.show(session.status)
        live.show(session.status, over=True)
    return Run(workspace, session.folder.id)


def named_settings(seed: int | None, name: str | None) -> list[str]:
    """The two settings that have an argument of their own, as overrides."""
    given = {"env.seed": seed, "name": name}
    return [f"{path}={json.dumps(value)}" for path, value in given.items() if value is not None]
