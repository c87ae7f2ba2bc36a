"""The experiments that ship with RLStudio: `rlstudio/configs/<algo>/<world>.yaml`, or `<world>/<algo>.yaml` for a study
of one world; in a checkout also `configs/`."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import NamedTuple

from rlstudio.core.errors import ConfigError, suggest
from rlstudio.core.parsing.yaml_file import read_file, read_text

FOLDER = Path(__file__).resolve().parents[2] / "configs"


SWEEPS = "sweep"


def presets() -> list[Path]:
    """All experiments, in order."""
    return [path for path in shipped_files() if path.parent.name != SWEEPS]


def shipped_files() -> list[Path]:
    """Experiments, and sweeps over them."""
    return sorted(FOLDER.glob("*/*.yaml"))


class Preset(NamedTuple):
    name: str  # as `rlctl launch -f` takes it
    algo: str
    env_id: str
    summary: str


def described_presets() -> list[Preset]:
    """All experiments, without checking or importing what they name."""
    return [_described(path) for path in presets()]


class ShippedSweep(NamedTuple):
    name: str  # as `rlctl sweep -f` takes it
    summary: str


def described_sweeps() -> list[ShippedSweep]:
    """The sweeps that ship with RLStudio."""
    sweeps = [path for path in shipped_files() if path.parent.name == SWEEPS]
    return [ShippedSweep(shipped_name(path), _summary(path.read_text())) for path in sweeps]


def _described(path: Path) -> Preset:
    text = path.read_text()
    data = read_text(text, str(path)).data
    algo, env_id = data["policy"]["algo"], data["env"]["id"]
    return Preset(shipped_name(path), algo, env_id, _summary(text) or f"{algo.upper()} on {env_id}")


def _summary(text: str) -> str:
    """The first sentence of the comment that a file begins with."""
    comment = itertools.takewhile(lambda line: line.startswith("#"), text.splitlines())
    return " ".join(line.lstrip("# ") for line in comment).partition(". ")[0].rstrip(".")


def shipped_name(path: Path) -> str:
    return f"configs/{path.relative_to(FOLDER).as_posix()}"


def find_preset(algo: str, env_id: str) -> Path | None:
    """The experiment for this algorithm and environment; the shortest name where there are several (variants are
    called `<world>_<variant>.yaml`)."""
    fitting = []
    for path in presets():
        data = read_file(path).data
        if data["policy"]["algo"] == algo and data["env"]["id"] == env_id:
            fitting.append(path)
    return min(fitting, key=lambda path: (len(path.name), path.name), default=None)


def locate(path: str | Path) -> Path:
    """The file itself, or the shipped one when `configs/...` is not below the working directory."""
    given = Path(path)
    if given.exists() or given.is_absolute():
        return given
    shipped = {shipped_name(preset): preset for preset in shipped_files()}
    if given.as_posix() in shipped:
        return shipped[given.as_posix()]
    raise ConfigError(f"{given}: no such file{suggest(given.as_posix(), shipped)}")
