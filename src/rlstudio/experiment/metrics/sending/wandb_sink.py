"""Weights & Biases: online, or offline in a folder of the run that `wandb sync` sends later.

The run there has the id of the run here, so that a resumed run goes on in the same one. A row is a step of the run with
`env_steps` as its x axis: the step that W&B counts itself may never go back, and a run that is rolled back does. Rows
after a roll-back have `attempt`.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from rlstudio.core.host.extras import Extra
from rlstudio.core.run_state import RunState
from rlstudio.experiment.config.sections import SinkConfig
from rlstudio.experiment.folder.run_folder import LARGEST_FILE, STATUS
from rlstudio.experiment.folder.status import parse_status
from rlstudio.experiment.metrics.description import RunDescription
from rlstudio.experiment.metrics.records import Record
from rlstudio.experiment.metrics.sending.sent import own_folder
from rlstudio.storage.folder import Folder

FOLDER = "artifacts/wandb"
X_AXIS = "env_steps"
INIT_SECONDS = 60.0


def _wandb_name(value: str) -> str:
    if unwanted := re.search(r"[/\\#?%:]", value):
        raise ValueError(f"W&B takes no {unwanted[0]} in a name, got {value!a}; leave it out")
    return value


WandbName = Annotated[str, Field(max_length=128), AfterValidator(_wandb_name)]


class WandbConfig(SinkConfig):
    mode: Literal["offline", "online"] = "offline"
    """`online` needs WANDB_API_KEY or an earlier `wandb login`; `offline` writes `artifacts/wandb` for `wandb sync`."""

    project: WandbName = Field("rlstudio", min_length=1)
    """The W&B project of the run."""

    entity: WandbName = ""
    """Team or user; by default the one that W&B knows."""

    artifacts: bool = True
    """Also send files: config, origin, and the artifacts of the run up to 64 MB each."""

    checkpoint: bool = False
    """Also send the newest checkpoint when the run ends."""

    def destination(self) -> str:
        return f"{self.mode} {self.entity}/{self.project}"


class WandbSink:
    """Runs of Weights & Biases, online or offline."""

    Config = WandbConfig
    append_only = True
    extra = Extra("wandb", "wandb")

    def __init__(self, cfg: WandbConfig, run_dir: Path) -> None:
        for name in ("WANDB_ERROR_REPORTING", "WANDB_SILENT"):
            os.environ.setdefault(name, {"WANDB_SILENT": "true"}.get(name, "false"))
        wandb = self.extra.load("tracking", "wandb")
        self._cfg, folder = cfg, own_folder(run_dir.absolute(), FOLDER)
        status = parse_status(Folder(run_dir).read(STATUS, limit=LARGEST_FILE) or b"")
        settings = wandb.Settings(
            console="off",
            silent=True,
            symlink=False,  # a run folder with links in it is not taken in by `rlctl adopt`
            disable_git=True,
            disable_code=True,
            save_code=False,
            x_disable_stats=True,
            x_disable_meta=True,  # host and command line are in the lineage, which is masked
            init_timeout=INIT_SECONDS,
        )
        self._run: Any = wandb.init(
            project=cfg.project,
            entity=cfg.entity or None,
            id=run_dir.name,
            group=None if status is None else status.name,
            resume="allow" if cfg.mode == "online" else None,
            mode=cfg.mode,
            dir=str(folder),
            settings=settings,
        )
        self._run.define_metric(X_AXIS)
        self._run.define_metric("*", step_metric=X_AXIS)
        self.link = str(self._run.url or self._run.dir)
        self._count, self._attempt, self._exit_code = 0, 0, 1

    def describe(self, run: RunDescription, attempt: int) -> None:
        self._attempt = attempt
        self._run.name = run.label
        self._run.tags = (*run.tags, run.status.algo, run.status.env_id)
        facts = {name: value for name, value in run.facts().items() if name != "state"}
        about = {"rlstudio": {**facts, "lineage": run.lineage}}
        self._run.config.update({**run.config, **about}, allow_val_change=True)
        if self._cfg.artifacts:
            for name, text in run.texts().items():
                path = Path(self._run.dir) / f"rlstudio-{name}"
                path.write_text(text)
                self._run.save(str(path), base_path=self._run.dir, policy="now")

    def write(self, records: Sequence[Record]) -> None:
        """One row for each stretch of records of one step; a second value of one key begins another."""
        row: dict[str, float] = {}
        for record in records:
            if row and (row[X_AXIS] != record.step or record.key in row):
                self._run.log(row)
                row = {}
            attempt = {"attempt": float(self._attempt)} if self._attempt else {}
            row |= {X_AXIS: record.step, "_timestamp": record.ts, record.key: record.value, **attempt}
        if row:
            self._run.log(row)
        self._count += len(records)

    def flush(self) -> None:
        """W&B has a process of its own that writes what it got."""

    def offset(self) -> int:
        return self._count

    def cut_back(self, offset: int) -> int:
        """Nothing is taken back there."""
        self._count = offset
        return 0

    def finish(self, run: RunDescription) -> None:
        self._run.summary.update({f"rlstudio/{name}": value for name, value in run.result().items()})
        self._run.summary["rlstudio/state"] = str(run.status.state)
        self._exit_code = 0 if run.status.state == RunState.COMPLETED else 1
        if self._cfg.artifacts:
            for name, path in run.artifacts(self._cfg.checkpoint).items():
                target = Path(self._run.dir) / name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target)
                self._run.save(str(target), base_path=self._run.dir, policy="now")

    def close(self) -> None:
        if self._run is not None:
            self._run.finish(exit_code=self._exit_code)
            self._run = None
