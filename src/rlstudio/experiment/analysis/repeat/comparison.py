"""A run and its repetition: what is the same, where they part first, and what has changed between the two."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from rlstudio.core.parsing.yaml_file import read_file, read_text
from rlstudio.core.run_state import RunState
from rlstudio.experiment.analysis.compare_runs import (
    ABSENT,
    MetricsComparison,
    compare_metrics,
    differences,
    topology_of,
)
from rlstudio.experiment.analysis.repeat.timeline import Timeline
from rlstudio.experiment.folder.run_folder import RunFolder
from rlstudio.experiment.lineage.changes import OriginChange, code_changes, library_changes, machine_changes
from rlstudio.experiment.lineage.libraries import LIBRARIES
from rlstudio.experiment.lineage.lineage import recorded_lineage
from rlstudio.experiment.run.continuation import lasting
from rlstudio.experiment.run.load import read_stored
from rlstudio.experiment.training.machine import have_same_probe

Word = Literal["identical", "different", "cannot be identical"]
WITHOUT_EFFECT = ("name", "imports", "tracking", "register", "ckpt", "resources", "runtime.trace", "eval.videos")
"""Settings that a repetition has otherwise, or that change no result."""


@dataclass(frozen=True)
class RepeatedRun:
    """The run that is repeated."""

    folder: RunFolder
    timeline: Timeline
    launched: str | None  # the config.yaml that the store launched it with, where a store knows it


class HashComparison(NamedTuple):
    """The whole state at a step at which the run still has a checkpoint."""

    step: int
    then: str
    now: str

    @property
    def same(self) -> bool:
        return self.then == self.now


class FirstDifference(NamedTuple):
    step: int
    what: str  # a metric, `state_hash` or `state`
    then: object
    now: object


@dataclass(frozen=True)
class Verdict:
    """What `rlctl reproduce` found."""

    run: str
    repetition: str
    env_steps: int  # up to which they were compared
    is_whole: bool  # the repetition was trained as far as the run
    metrics: MetricsComparison
    hashes: tuple[HashComparison, ...]
    first: FirstDifference | None
    changes: tuple[OriginChange, ...]
    reasons: tuple[str, ...]  # why the same numbers were never promised

    @property
    def word(self) -> Word:
        if self.first is None:
            return "identical"
        return "cannot be identical" if self.reasons else "different"

    def to_json(self) -> dict[str, object]:
        first = None if self.first is None else {name: _number(value) for name, value in self.first._asdict().items()}
        return {
            "verdict": self.word,
            "run": self.run,
            "repetition": self.repetition,
            "env_steps": self.env_steps,
            "whole": self.is_whole,
            "first_difference": first,
            "metrics": self.metrics.to_json(),
            "state_hashes": [{**one._asdict(), "same": one.same} for one in self.hashes],
            "changes": [{name: _number(value) for name, value in change.to_json().items()} for change in self.changes],
            "reasons": list(self.reasons),
        }


def verdict_of(repeated: RepeatedRun, repetition: RunFolder, hashes: Mapping[int, str], is_whole: bool) -> Verdict:
    """`hashes`: of the repetition, by steps at which the run has a checkpoint. `is_whole`: it was to come as far."""
    run, timeline = repeated.folder, repeated.timeline
    metrics = compare_metrics(run.path, repetition.path)
    compared = tuple(
        HashComparison(info.step, info.state_hash, hashes[info.step])
        for info in reversed(timeline.kept)
        if info.step in hashes
    )
    then, now = run.read_status(), repetition.read_status()
    candidates = [*_parted(metrics, is_whole, now.env_steps), *_other_states(compared)]
    ends = (str(then.state), str(then.reason)), (str(now.state), str(now.reason))
    if is_whole and then.state in (RunState.COMPLETED, RunState.FAILED) and ends[0] != ends[1]:
        words = [" ".join(filter(None, end)) for end in ends]
        candidates.append(FirstDifference(now.env_steps, "state", *words))
    return Verdict(
        run=run.id,
        repetition=repetition.id,
        env_steps=now.env_steps,
        is_whole=is_whole,
        metrics=metrics,
        hashes=compared,
        first=min(candidates, key=lambda difference: difference.step, default=None),
        changes=tuple(changes_between(repeated, repetition)),
        reasons=tuple(_reasons(then.exact, then.exact_reason, timeline)),
    )


def _parted(metrics: MetricsComparison, is_whole: bool, env_steps: int) -> Iterator[FirstDifference]:
    if (apart := metrics.divergence) is not None:
        sides = (None if side is ABSENT else side for side in (apart.left, apart.right))
        yield FirstDifference(apart.step, apart.key, *sides)
    elif is_whole and metrics.longer is not None and metrics.same_values:
        ended = [None, "goes on"] if metrics.longer == "right" else ["goes on", None]
        yield FirstDifference(metrics.same_up_to or env_steps, "metrics", *ended)


def _other_states(compared: tuple[HashComparison, ...]) -> Iterator[FirstDifference]:
    for one in compared:
        if not one.same:
            yield FirstDifference(one.step, "state_hash", one.then, one.now)


def _reasons(exact: bool, reason: str, timeline: Timeline) -> Iterator[str]:
    if not exact:
        yield reason
    for one in timeline.breaks:
        if one.reason != reason:
            yield f"at {one.step:,} steps: {one.reason}"


# -- what has changed -------------------------------------------------------------------------------------------------


def changes_between(repeated: RepeatedRun, repetition: RunFolder) -> Iterator[OriginChange]:
    """The most likely reason first."""
    config = list(_config_changes(repeated, repetition))
    yield from config
    then, now = recorded_lineage(repeated.folder) or {}, recorded_lineage(repetition) or {}
    yield from code_changes(then, now)
    yield from library_changes(then, now)
    kept = repeated.timeline.kept
    named = {change.name.rpartition(".")[2] for change in config}
    yield from _topology_changes(kept[0].topology if kept else None, topology_of(repetition), named)
    yield from machine_changes(then, now)


def _config_changes(repeated: RepeatedRun, repetition: RunFolder) -> Iterator[OriginChange]:
    folder, lengths = repeated.folder, {stretch.epochs for stretch in repeated.timeline.stretches}
    of_folder = read_file(folder.config_path)
    launched = of_folder if repeated.launched is None else read_text(repeated.launched, folder.id)
    for name, left, right in differences(launched.data, read_file(repetition.config_path).data):
        is_extension = name == "train.epochs" and left in lengths and right in lengths
        has_effect = name.split(".")[0] not in WITHOUT_EFFECT and name not in WITHOUT_EFFECT
        if has_effect and not is_extension:
            yield OriginChange("config", name, *(None if side is ABSENT else side for side in (left, right)))
    stored, status = read_stored(folder), folder.read_status()
    now = stored.hash_of(lasting(stored.cfg, status.total_epochs))
    if repeated.launched is None and status.config_hash not in ("", now):
        yield OriginChange("config", "config.yaml, which was edited", status.config_hash[:12], now[:12])


def _topology_changes(
    then: Mapping[str, object] | None, now: Mapping[str, object] | None, settings: set[str]
) -> Iterator[OriginChange]:
    """Libraries have been named already, and settings too."""
    if then is None or now is None:
        return
    skipped = {*LIBRARIES, *settings} | (set() if have_same_probe(then, now) else {"numerics"})
    for name in sorted(then.keys() | now.keys()):
        if name not in skipped and then.get(name) != now.get(name):
            yield OriginChange("topology", name, then.get(name), now.get(name))


def _number(value: object) -> object:
    return repr(value) if isinstance(value, float) and not math.isfinite(value) else value
