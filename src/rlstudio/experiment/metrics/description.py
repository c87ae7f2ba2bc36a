"""What a sink is told of a run besides its metrics: settings, tags, origin, result and files, with secrets masked."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import yaml

from rlstudio.experiment.checkpoint.manifest import checkpoint_steps, folder_name
from rlstudio.experiment.folder.run_folder import LARGEST_FILE, RunFolder
from rlstudio.experiment.folder.status import Status
from rlstudio.experiment.lineage.lineage import recorded_lineage
from rlstudio.experiment.lineage.secrets import masked_settings
from rlstudio.storage.folder import Folder

ARTIFACTS = "artifacts"
OWN_FOLDERS = ("sinks", "tensorboard", "wandb")
"""Folders of artifacts that sinks wrote themselves."""

LARGEST_ARTIFACT = 64 << 20
"""Bytes of a file that is sent; a larger one stays in the run folder alone."""


@dataclass(frozen=True)
class RunDescription:
    status: Status
    config: Mapping[str, object]
    lineage: Mapping[str, object]
    tags: tuple[str, ...]
    folder: Path

    @property
    def label(self) -> str:
        """The run as a tool is to call it."""
        return f"{self.status.name}-seed{self.status.seed}"

    def created(self) -> float:
        """When, in seconds; 0 where that is not recorded."""
        try:
            return datetime.fromisoformat(self.status.created_at).timestamp()
        except ValueError:
            return 0.0

    def settings(self) -> dict[str, object]:
        """The config by dotted names; a list is one value."""
        return dict(_flat(self.config))

    def facts(self) -> dict[str, object]:
        """What a tool may filter by."""
        status, code = self.status, self.lineage.get("code")
        commits = {
            f"commit.{name}": commit.get("commit")
            for name, commit in (code.items() if isinstance(code, dict) else ())
            if isinstance(commit, dict)
        }
        values: dict[str, object] = {
            "run_id": status.id,
            "group": status.name,
            "algo": status.algo,
            "env": status.env_id,
            "seed": status.seed,
            "config_hash": status.config_hash,
            "state": str(status.state),
            "exact": status.exact,
            "host": self.lineage.get("host"),
            **commits,
        }
        return {name: value for name, value in values.items() if value not in (None, "")}

    def result(self) -> dict[str, float | str]:
        """How far the run came, and what the last evaluation said."""
        status = self.status
        values = {
            "env_steps": float(status.env_steps),
            "epoch": float(status.epoch),
            "eval_return": status.eval_return,
            "state_hash": status.state_hash,
        }
        return {name: value for name, value in values.items() if value is not None}

    def texts(self) -> dict[str, str]:
        """Small files that are written for the tool: those of the run folder would have secrets in them."""
        return {
            "config.yaml": yaml.safe_dump(self.config, sort_keys=False, allow_unicode=True),
            "lineage.json": json.dumps(self.lineage, indent=2, default=str) + "\n",
        }

    def artifacts(self, checkpoint: bool = False) -> dict[str, Path]:
        """Files of the run by the name they are to have: videos, exports, ...; and the newest checkpoint if wanted."""
        folder = Folder(self.folder)
        names = list(_files(folder, ARTIFACTS))
        if checkpoint and (steps := checkpoint_steps(folder)):
            names += _files(folder, folder_name(max(steps)))
        return {name: folder.path(name) for name in names}


def describe(run_dir: Path, tags: Sequence[str] = ()) -> RunDescription:
    """As the run stands now. A config that cannot be read is sent as none: metrics do not wait for it."""
    run = RunFolder(run_dir)
    data = Folder(run_dir).read("config.yaml", limit=LARGEST_FILE)
    try:
        config = yaml.safe_load(data or b"")
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError):
        config = None
    masked = masked_settings(config if isinstance(config, dict) else {})
    assert isinstance(masked, dict)
    return RunDescription(run.read_status(), masked, _masked_lineage(recorded_lineage(run) or {}), tuple(tags), run_dir)


def _masked_lineage(lineage: Mapping[str, object]) -> dict[str, object]:
    """`google-auth` is the name of a distribution here, and what it stands for a version."""
    masked = masked_settings(lineage)
    assert isinstance(masked, dict)
    if isinstance(packages := lineage.get("packages"), Mapping):
        masked["packages"] = {name: masked_settings(version) for name, version in packages.items()}
    return masked


def plain_name(name: str) -> str:
    """A name with letters, digits and `_ - . /` only, as the tools accept it."""
    return re.sub(r"[^\w\-./ ]", "_", name, flags=re.ASCII)[:250]


def _flat(value: Mapping[str, object], above: str = "") -> Iterator[tuple[str, object]]:
    for name, inner in value.items():
        if isinstance(inner, Mapping):
            yield from _flat(inner, f"{above}{name}.")
        else:
            yield f"{above}{name}", inner


def _files(folder: Folder, name: str) -> Iterator[str]:
    """Regular files below; links are never followed, and what sinks wrote is left out."""
    for entry in folder.names(name):
        path = f"{name}/{entry}"
        if folder.kind(path) == "folder" and not (name == ARTIFACTS and entry in OWN_FOLDERS):
            yield from _files(folder, path)
        elif (size := folder.size(path)) is not None and size <= LARGEST_ARTIFACT and not entry.startswith("."):
            yield path
