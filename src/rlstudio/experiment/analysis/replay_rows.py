"""What a checkpoint says of the rows of a replay: whose they are, which of them count, and where one comes from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rlstudio.core.contracts import Contributor, State
from rlstudio.core.errors import CheckpointError, UserError
from rlstudio.data.replay.numbering import Numbering
from rlstudio.data.replay.provenance import episode_of, fragment_before, origin_of, samples_before
from rlstudio.envs.seeds import episode_name
from rlstudio.experiment.checkpoint.changed_replay import BY_USER, PURGE, RELEASE, decisions
from rlstudio.experiment.checkpoint.checkpoints import Checkpoints, Loaded
from rlstudio.experiment.checkpoint.snapshot import naming_misfits
from rlstudio.experiment.config.experiment import ExperimentConfig
from rlstudio.experiment.folder.run_folder import RunFolder
from rlstudio.experiment.metrics.fragment_log import FragmentLog
from rlstudio.experiment.run.load import choose, read_config
from rlstudio.scale.workers.job import slices


@dataclass(frozen=True)
class SourceRows:
    """One source, and the rows that are held of it."""

    number: int
    name: str
    rows: int
    reward_mean: float
    bad_rows: int  # that weigh nothing by themselves
    standing: str  # `counts`, or why not


@dataclass(frozen=True)
class RowOrigin:
    """Where one row comes from. `version` of the policy: samples that had been learned from, or, of asynchronous
    workers, the number under which the weights were published; None where it is not known."""

    row: int
    source: int
    name: str
    env: int
    step: int
    version: int | None
    episode: str | None
    segment: str  # empty: in the part that each checkpoint writes anew
    link: str


class ReplayRows:
    def __init__(self, folder: RunFolder, cfg: ExperimentConfig, loaded: Loaded) -> None:
        part: Any = loaded.content["trainer_state"].get("source")
        topology = loaded.info.topology or {}
        if not isinstance(part, dict) or "replay" not in part:
            raise UserError(
                f"run {folder.id}: has no replay of one policy ({cfg.policy.algo}{' in teams' if cfg.teams else ''}):"
                " there are no sources to look at"
            )
        if "learners" in topology:
            raise UserError(f"run {folder.id}: each of its learners has a replay of its own; one can be looked at only")
        self.folder, self.cfg, self.loaded = folder, cfg, loaded
        self._state: State = part
        replay = part["replay"]
        with naming_misfits("what its manifest says of the run"):
            self.num_envs = int(topology["num_envs"])  # type: ignore[call-overload]
            self.numbering = Numbering(int(replay["capacity"]), self.num_envs)
            even = np.full(self.num_envs, int(replay["added"]) // self.num_envs)
            self.numbering.set(np.asarray(replay.get("counts", even)))

    @classmethod
    def of(cls, folder: RunFolder) -> ReplayRows:
        """Of the newest checkpoint that verifies. Nothing is changed."""
        return cls(folder, read_config(folder), choose(Checkpoints(folder.path, folder.id, lease=None), folder, "last"))

    @cached_property
    def origins(self) -> list[Contributor]:
        workers = self.cfg.rollout.workers
        if workers is not None:
            return [Contributor(f"worker {n}", own) for n, own in enumerate(slices(self.num_envs, workers))]
        agents = self.num_envs // self.cfg.env.num_envs
        return [Contributor(f"env {n}", range(n * agents, (n + 1) * agents)) for n in range(self.cfg.env.num_envs)]

    @cached_property
    def columns(self) -> dict[str, np.ndarray]:
        """Number, reward, weight and end of every row held, by number."""
        parts = []
        for name, columns in self._pieces():
            start, size = int(name), len(columns["rewards"])
            done = columns["terminated"] | columns["truncated"]
            numbers = np.arange(start, start + size)
            parts.append({"number": numbers, "reward": columns["rewards"], "weight": columns["weights"], "done": done})
        empty = {name: np.zeros(0, kind) for name, kind in _KINDS.items()}
        whole = {name: np.concatenate([empty[name], *(part[name] for part in parts)]) for name in empty}
        order = np.argsort(whole["number"], kind="stable")
        held = order[np.isin(whole["number"][order], self.numbering.held())]
        return {name: column[held] for name, column in whole.items()}

    def _pieces(self) -> Iterator[tuple[str, dict[str, np.ndarray]]]:
        replay = self._state["replay"]
        for segment in replay["segments"]:
            yield segment.name.split("-")[1], segment.columns()
        yield from replay["ends"].items()

    def sources(self) -> list[SourceRows]:
        columns, counted = self.columns, self.standings()
        of = columns["number"] % self.num_envs
        rows = []
        for number, origin in enumerate(self.origins):
            own = np.isin(of, origin.columns)
            rewards, weights = columns["reward"][own], columns["weight"][own]
            mean = float(rewards.mean()) if len(rewards) else float("nan")
            rows.append(SourceRows(number, origin.name, len(rewards), mean, int((weights == 0).sum()), counted[number]))
        return rows

    def standings(self) -> list[str]:
        """What each source counts, decisions of the user included that the run has not carried out yet."""
        state: Any = self._state.get("sources", {})
        standings = ["counts"] * len(self.origins)
        for number, reason in state.get("quarantined", {}).items():
            standings[int(number)] = f"quarantined: {reason}"
        for action, number in [*decisions(self.folder)][int(state.get("decisions", 0)) :]:
            if 0 <= number < len(standings):
                done = {RELEASE: "counts", PURGE: f"purged {BY_USER}"}.get(action, f"quarantined: {BY_USER}")
                standings[number] = f"{done} (from the next resume on)"
        return standings

    def row(self, number: int) -> RowOrigin:
        """Where the row of this number comes from; one that is not held any more can still be told."""
        if not number >= 0 or number // self.num_envs >= self.numbering.counts[number % self.num_envs]:
            raise UserError(f"row {number}: the replay of run {self.folder.id} has had {self.numbering.end:,} so far")
        step, column = divmod(number, self.num_envs)
        source = origin_of(column, self.origins)
        segment = next((one for one in reversed(self.loaded.info.segments) if _starts(one.name) <= number), None)
        ends = [int(name) for name in self._state["replay"]["ends"]]
        is_open = segment is None or any(_starts(segment.name) < start <= number for start in ends)
        return RowOrigin(
            number,
            source,
            self.origins[source].name,
            column * self.cfg.env.num_envs // self.num_envs,
            step,
            self._version(source, step),
            self._episode(source, step, column),
            "" if is_open or segment is None else segment.name,
            "" if is_open or segment is None else segment.link,
        )

    def _version(self, source: int, step: int) -> int | None:
        if self.num_envs * int(self.numbering.counts.max()) < self.loaded.info.step:
            return None  # the replay was emptied: its rows are counted anew, and updates are not
        if self.cfg.rollout.mode == "async":
            tags = [tag for one in FragmentLog(self.folder.path).rounds() for tag in one.fragments]
            own = [tag for tag in tags if tag.worker == source]
            place = fragment_before(step, [tag.steps for tag in own])
            return own[place].version if place < len(own) else None
        plan = getattr(self.cfg.train, "replay_plan", None)
        known = plan is not None and "open" not in self._state
        return samples_before(step, plan, self.num_envs) if known and plan is not None else None

    def _episode(self, source: int, step: int, column: int) -> str | None:
        """Counted back from the episode that is open now, so only of a row that is held."""
        collector, columns = self._state["collector"], self.columns
        own = (columns["number"] % self.num_envs == column) & (columns["number"] // self.num_envs >= step)
        agents = self.num_envs // self.cfg.env.num_envs
        if agents > 1 or int(own.sum()) != self.numbering.counts[column] - step:
            return None
        first = self.origins[source].columns[0] if "slices" in collector else 0
        position = collector["slices"][source]["env"] if "slices" in collector else collector["env"]
        if "episodes" not in position:
            return None
        open_episode = int(np.asarray(position["episodes"])[column - first])
        return episode_name(self.cfg.env.seed, column, episode_of(columns["done"][own], open_episode))


_KINDS = {"number": "i8", "reward": "f4", "weight": "f4", "done": "?"}


def _starts(name: str) -> int:
    try:
        return int(name.split("-")[1])
    except (IndexError, ValueError) as error:
        raise CheckpointError(f"{name}: is not the name of a segment of rows") from error
