"""How two runs differ: configuration, topology, lineage, and the first metric at which they part.

Metrics are compared bit by bit, with one NaN equal to another; time stamps and values tagged `clock` are outside every
promise and passed over. Both runs are read side by side, one step at a time, whatever the size of their files.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import zip_longest
from pathlib import Path
from typing import Literal, NamedTuple

from rlstudio.core.parsing.problems import dotted
from rlstudio.core.parsing.yaml_file import KeyPath, read_file
from rlstudio.experiment.checkpoint.checkpoints import Checkpoints
from rlstudio.experiment.folder.run_folder import RunFolder
from rlstudio.experiment.metrics.reader import read_metrics
from rlstudio.experiment.metrics.records import CLOCK

Side = Literal["left", "right"]


class Absent(Enum):
    """Not there at all, which is not the same as null."""

    ABSENT = "absent"


ABSENT = Absent.ABSENT


class Difference(NamedTuple):
    """One field that is not the same in both."""

    field: str  # dotted, as in `policy.network.hidden_sizes`
    left: object
    right: object

    def to_json(self) -> dict[str, object]:
        """An absent side is left out."""
        return {"field": self.field, **_sides(self.left, self.right)}


class Divergence(NamedTuple):
    """The first value that is not the same in both."""

    step: int
    key: str
    left: float | Absent
    right: float | Absent
    largest: float | None  # relative difference among all that both hold at this step; None where they share nothing
    largest_key: str | None

    def to_json(self) -> dict[str, object]:
        """An absent side is left out; NaN and the infinities are text, because JSON has none."""
        return {
            "step": self.step,
            "key": self.key,
            **_sides(_number(self.left), _number(self.right)),
            "largest_relative_difference": _number(self.largest),
            "largest_key": self.largest_key,
        }


@dataclass(frozen=True)
class MetricsComparison:
    same_values: int  # how many both hold, equal, before they part or end
    same_up_to: int | None  # the last step at which everything agrees; None where not even the first does
    divergence: Divergence | None = None
    longer: Side | None = None  # which goes on where the other has ended

    @property
    def equal(self) -> bool:
        return self.divergence is None and self.longer is None

    def to_json(self) -> dict[str, object]:
        return {
            "equal": self.equal,
            "same_values": self.same_values,
            "same_up_to": self.same_up_to,
            "longer": self.longer,
            "divergence": None if self.divergence is None else self.divergence.to_json(),
        }


@dataclass(frozen=True)
class Comparison:
    config: list[Difference]
    topology: list[Difference] | None  # None: one of the runs has not recorded it
    lineage: list[Difference] | None
    metrics: MetricsComparison

    @property
    def equal(self) -> bool:
        """The same experiment with the same numbers. Topology and lineage explain a difference but do not count as
        one: a run repeated on another machine, or under another name, is meant to be equal."""
        return all(difference.field == "name" for difference in self.config) and self.metrics.equal

    def to_json(self) -> dict[str, object]:
        return {
            "equal": self.equal,
            "config": _list(self.config),
            "topology": _list(self.topology),
            "lineage": _list(self.lineage),
            "metrics": self.metrics.to_json(),
        }


def compare_runs(
    left: RunFolder,
    right: RunFolder,
    left_lineage: Mapping[str, object] | None = None,
    right_lineage: Mapping[str, object] | None = None,
) -> Comparison:
    """Everything that tells two runs apart. Neither is changed, and both may be training meanwhile."""
    return Comparison(
        config=differences(read_file(left.config_path).data, read_file(right.config_path).data),
        topology=_where_recorded(topology_of(left), topology_of(right)),
        lineage=_where_recorded(left_lineage, right_lineage),
        metrics=compare_metrics(left.path, right.path),
    )


def topology_of(folder: RunFolder) -> Mapping[str, object] | None:
    """What the newest checkpoint was computed on."""
    infos = Checkpoints(folder.path, folder.id, lease=None).list()
    return infos[0].topology if infos else None


def _where_recorded(left: Mapping[str, object] | None, right: Mapping[str, object] | None) -> list[Difference] | None:
    return None if left is None or right is None else differences(left, right)


# -- fields -----------------------------------------------------------------------------------------------------------


def differences(left: object, right: object) -> list[Difference]:
    """Where two trees of JSON values differ, in the order of the left one. A list of plain values is one value."""
    mine, yours = dict(_leaves(left)), dict(_leaves(right))
    pairs = ((path, mine.get(path, ABSENT), yours.get(path, ABSENT)) for path in {**mine, **yours})
    # repr: a NaN equals a NaN, and true is not 1
    return [Difference(dotted(path), a, b) for path, a, b in pairs if repr(a) != repr(b)]


def _leaves(value: object, path: KeyPath = ()) -> Iterator[tuple[KeyPath, object]]:
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from _leaves(inner, (*path, name))
    elif isinstance(value, list) and any(isinstance(inner, dict | list) for inner in value):
        for index, inner in enumerate(value):
            yield from _leaves(inner, (*path, index))
    else:
        yield path, value


# -- metrics ----------------------------------------------------------------------------------------------------------


class _Group(NamedTuple):
    """Values written one after the other for one step, each key once."""

    step: int
    values: dict[str, float]
    is_last: bool


def compare_metrics(left: Path, right: Path) -> MetricsComparison:
    """Walk through the metrics of two run folders until they part or one ends."""
    same_values, same_up_to = 0, None
    for mine, yours in zip_longest(_groups(left), _groups(right)):
        if mine is None or yours is None:
            return MetricsComparison(same_values, same_up_to, longer="left" if yours is None else "right")
        longer = _cut_short(mine, yours)
        divergence = None if longer else _divergence(mine, yours)
        if divergence is not None:
            return MetricsComparison(same_values, same_up_to, divergence)
        same_values, same_up_to = same_values + min(len(mine.values), len(yours.values)), mine.step
        if longer:
            return MetricsComparison(same_values, same_up_to, longer=longer)
    return MetricsComparison(same_values, same_up_to)


def _groups(run_dir: Path) -> Iterator[_Group]:
    step, values = 0, dict[str, float]()
    for record in read_metrics(run_dir):
        if CLOCK in record.tags:
            continue
        # Several updates may share one environment step: a key that comes again begins a new group.
        if values and (record.step != step or record.key in values):
            yield _Group(step, values, is_last=False)
            values = {}
        step = record.step
        values[record.key] = record.value
    if values:
        yield _Group(step, values, is_last=True)


def _cut_short(left: _Group, right: _Group) -> Side | None:
    """Which one goes on, where the other ended within this step and had said nothing else until then."""
    if _ends_within(right, left):
        return "left"
    return "right" if _ends_within(left, right) else None


def _ends_within(short: _Group, long: _Group) -> bool:
    begins = short.is_last and short.step == long.step and short.values.keys() < long.values.keys()
    return begins and all(_is_same(value, long.values[key]) for key, value in short.values.items())


def _divergence(left: _Group, right: _Group) -> Divergence | None:
    if left.step < right.step:
        return _only(left, "left")
    if right.step < left.step:
        return _only(right, "right")
    mine, yours = left.values, right.values
    for key in {**mine, **yours}:
        a, b = mine.get(key, ABSENT), yours.get(key, ABSENT)
        if isinstance(a, Absent) or isinstance(b, Absent) or not _is_same(a, b):
            shared = [(_relative(mine[key], yours[key]), key) for key in mine if key in yours]
            largest, largest_key = max(shared, key=lambda entry: entry[0], default=(None, None))
            return Divergence(left.step, key, a, b, largest, largest_key)
    return None


def _only(group: _Group, side: Side) -> Divergence:
    key, value = next(iter(group.values.items()))
    left, right = (value, ABSENT) if side == "left" else (ABSENT, value)
    return Divergence(group.step, key, left, right, None, None)


def _is_same(a: float, b: float) -> bool:
    """The same bits, except that there are many NaNs; 0.0 is not -0.0."""
    return a.hex() == b.hex()


def _relative(a: float, b: float) -> float:
    """Between 0 and 2; infinite where only one is NaN or infinite."""
    if _is_same(a, b):
        return 0.0
    if not math.isfinite(a) or not math.isfinite(b):
        return math.inf
    scale = max(abs(a), abs(b))
    return abs(a / scale - b / scale) if scale else 0.0


# -- JSON -------------------------------------------------------------------------------------------------------------


def _list(entries: list[Difference] | None) -> list[dict[str, object]] | None:
    return None if entries is None else [difference.to_json() for difference in entries]


def _sides(left: object, right: object) -> dict[str, object]:
    return {side: value for side, value in (("left", left), ("right", right)) if value is not ABSENT}


def _number(value: object) -> object:
    return repr(value) if isinstance(value, float) and not math.isfinite(value) else value
