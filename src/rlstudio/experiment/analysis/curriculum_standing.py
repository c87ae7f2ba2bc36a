"""Where the curriculum of a run stands, read from its folder: the config says what there is, the metrics how far it is.
Metrics are cut back when a run goes back to a checkpoint, which its events are not."""

from __future__ import annotations

from math import isfinite
from typing import Any

from rlstudio.core.errors import UserError
from rlstudio.core.parsing.yaml_file import read_text
from rlstudio.experiment.curriculum.changes import GROUP
from rlstudio.experiment.curriculum.config import KINDS
from rlstudio.experiment.folder.run_folder import RunFolder
from rlstudio.experiment.metrics.reader import read_metrics


def curriculum_standing(folder: RunFolder) -> dict[str, Any] | None:
    """`kind`, of stages their names and the one it is in, and the newest `curriculum/` metrics; None without one."""
    section = _section(folder)
    if section is None:
        return None
    newest = {r.key.removeprefix(GROUP): r.value for r in read_metrics(folder.path) if r.key.startswith(GROUP)}
    kind = next(kind for kind in KINDS if section.get(kind))
    standing: dict[str, Any] = {"kind": kind, "metrics": {k: v if isfinite(v) else None for k, v in newest.items()}}
    if kind == "stages":
        standing["stages"] = [stage["name"] for stage in section["stages"]]
        standing["stage"] = standing["stages"][int(newest.get("stage", 1)) - 1]
    return standing


def standing_text(standing: dict[str, Any]) -> str:
    """One line for a person."""
    numbers = ", ".join(
        f"{name} {value:.4g}" for name, value in standing["metrics"].items() if value is not None and name != "stage"
    )
    if standing["kind"] != "stages":
        return f"{standing['kind']}{': ' * bool(numbers)}{numbers}"
    names = standing["stages"]
    place = f"stage {names.index(standing['stage']) + 1} of {len(names)}, {standing['stage']}"
    return f"{place}{': ' * bool(numbers)}{numbers}"


def _section(folder: RunFolder) -> dict[str, Any] | None:
    if not folder.exists:
        return None
    try:
        data = read_text(folder.read_config(), str(folder.config_path)).data
    except UserError:  # damaged: other commands say so
        return None
    section = data.get("curriculum") if isinstance(data, dict) else None
    return section if isinstance(section, dict) else None
