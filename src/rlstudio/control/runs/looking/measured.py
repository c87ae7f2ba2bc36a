"""Selected runs in groups, with what they measured. It only looks.

A group is a name (decision 0043). Where runs of one name are different experiments (the same file launched with another
setting), each experiment is a group of its own, called by what differs: a band over both would mean nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from rlstudio.control.runs.select import by_name
from rlstudio.control.workspace import Entry
from rlstudio.core.errors import RLStudioError
from rlstudio.core.parsing.yaml_file import read_file
from rlstudio.experiment.analysis.compare_runs import ABSENT, differences
from rlstudio.experiment.analysis.groups import MeasuredGroup, MeasuredRun
from rlstudio.experiment.metrics.indexed.index import read_series, series_over_time
from rlstudio.experiment.metrics.indexed.snapshot import Axis

OF_ONE_RUN = {"name", "env.seed"}
"""Settings in which repetitions of one experiment differ."""

MOST_SETTINGS = 2
"""That a label names."""


def measured_groups(entries: Sequence[Entry], axis: Axis = "env_steps") -> tuple[MeasuredGroup, ...]:
    """The groups of the selected runs, in their order. A run without a folder has measured nothing; if that is so for
    all of them, the reason of the first one is raised. `axis`: what curves are over; `time` is seconds since the run
    first measured something, pauses included."""
    if not any(entry.has_folder for entry in entries):
        entries[0].workspace.folder_to_read(entries[0].id)
    return tuple(
        MeasuredGroup(label, tuple(_measured(entry, axis) for entry in members))
        for name, group in by_name(entries).items()
        for label, members in _experiments(name, group).items()
    )


def _measured(entry: Entry, axis: Axis) -> MeasuredRun:
    read = read_series if axis == "env_steps" else series_over_time
    return MeasuredRun(entry.status, read(entry.folder.path) if entry.has_folder else {})


def _experiments(name: str, entries: Sequence[Entry]) -> dict[str, list[Entry]]:
    """The runs of one name by their experiment, under a label of its own."""
    by_hash: dict[str, list[Entry]] = {}
    for entry in entries:
        by_hash.setdefault(entry.status.config_hash, []).append(entry)
    groups = list(by_hash.values())
    if len(groups) == 1:
        return {name: groups[0]}
    labels = _settings([_config(group[0]) for group in groups])
    if len(set(labels)) < len(groups):
        labels = [f"config {config_hash[:6]}" for config_hash in by_hash]
    return {f"{name} {label}": group for label, group in zip(labels, groups, strict=True)}


def _settings(configs: Sequence[object]) -> list[str]:
    """For each config, the settings in which it differs from the others, as on a command line; empty where that would
    be too many."""
    changes = [
        {change.field: change for change in differences(configs[0], other) if change.field not in OF_ONE_RUN}
        for other in configs
    ]
    first = {field: change.left for each in changes for field, change in each.items()}
    if len(first) > MOST_SETTINGS:
        return [""] * len(configs)
    values = [first | {field: change.right for field, change in each.items()} for each in changes]
    return [
        " ".join(f"{field}={'none' if value is ABSENT else value}" for field, value in sorted(each.items()))
        for each in values
    ]


def _config(entry: Entry) -> object:
    try:
        return read_file(entry.folder.config_path).data
    except RLStudioError:  # the label then names the hash
        return {}
