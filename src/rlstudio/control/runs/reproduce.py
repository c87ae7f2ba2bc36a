"""Reproduce: a run again from its stored config and seed, as a run of its own, compared with what it was."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from rlstudio.control.runs.fork import begun_at, free_name, is_named
from rlstudio.control.runs.start import begin, request_of, resume_session
from rlstudio.control.workspace import Entry, Workspace
from rlstudio.core.errors import UserError
from rlstudio.core.host.portable import require
from rlstudio.experiment.analysis.repeat.comparison import RepeatedRun
from rlstudio.experiment.analysis.repeat.repetition import Repetition
from rlstudio.experiment.analysis.repeat.timeline import Beginning, Stretch, Timeline, timeline_of
from rlstudio.experiment.checkpoint.checkpoints import Checkpoints
from rlstudio.experiment.config.experiment import ExperimentConfig
from rlstudio.experiment.config.sections import RegisterConfig, TrackingConfig
from rlstudio.experiment.folder.run_folder import RunFolder
from rlstudio.experiment.run.continuation import lasting
from rlstudio.experiment.run.load import read_config
from rlstudio.experiment.run.session import Session
from rlstudio.experiment.training.build import build

WORD = "again"


def reproduce(
    workspace: Workspace, entry: Entry, overrides: Sequence[str] = (), *, epochs: int | None = None
) -> Repetition:
    """The repetition, ready to train. `overrides`: settings that are to be otherwise, to see what they change.
    `epochs`: only the first ones. It sends nothing to sinks and registers nothing."""
    folder = workspace.folder_to_load(entry.id)
    timeline = timeline_of(folder)
    own = [] if is_named(overrides) else [f"name={json.dumps(free_name(workspace, entry.status.name, WORD))}"]
    cfg = read_config(folder, [*overrides, *own])
    judging = cfg.eval.model_copy(update={"videos": 0})
    cfg = cfg.model_copy(update={"eval": judging, "tracking": TrackingConfig(), "register": RegisterConfig()})
    require(cfg.runtime.numerics)
    stretches = list(timeline.stretches)
    if any(override.partition("=")[0].strip() == "train.epochs" for override in overrides):
        stretches = [Stretch(0, cfg.train.epochs)]
    session = _begun(workspace, folder, timeline, lasting(cfg, stretches[0].epochs))
    extend = partial(_extended, workspace, session.folder.id)
    return Repetition(
        RepeatedRun(folder, timeline, _launched(workspace, entry)), session, stretches, extend, epochs=epochs
    )


def _begun(workspace: Workspace, folder: RunFolder, timeline: Timeline, cfg: ExperimentConfig) -> Session:
    request = request_of(cfg)
    request = replace(request, lineage={**(request.lineage or {}), "reproduces": folder.id})
    if timeline.beginning is None:
        return begin(workspace, cfg, build(cfg), request)
    source = _source(workspace, folder, timeline, timeline.beginning)
    return begun_at(workspace, replace(request, parent_id=source.id), cfg, source, str(timeline.beginning.step))


def _source(workspace: Workspace, folder: RunFolder, timeline: Timeline, beginning: Beginning) -> RunFolder:
    """Whoever still has the checkpoint that a fork began with: itself, or its parent."""
    if any(info.step == beginning.step for info in timeline.kept):
        return folder
    if beginning.run_id is not None:
        parent = workspace.folder(beginning.run_id)
        infos = Checkpoints(parent.path, parent.id, lease=None).list() if parent.exists else []
        if any((info.step, info.state_hash) == (beginning.step, beginning.state_hash) for info in infos):
            return parent
    raise UserError(
        f"run {folder.id}: it began with {beginning.of} at {beginning.step:,} steps, and nobody has that checkpoint any"
        " more, so it cannot begin there again; ckpt.history keeps such checkpoints"
    )


def _extended(workspace: Workspace, run_id: str, epochs: int) -> Session:
    run = workspace.find(run_id).run
    assert run is not None, run_id
    return resume_session(workspace, run, [f"train.epochs={epochs}"])


def _launched(workspace: Workspace, entry: Entry) -> str | None:
    """The config that it was launched with; its folder may have been edited since."""
    return None if entry.run is None else workspace.records.config_yaml(entry.id)
