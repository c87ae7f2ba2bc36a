"""The first and the last lines of a run: what it is, what came out, and what to try next."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from rlstudio.cli.screen import text
from rlstudio.cli.screen.runs_dir import in_runs_dir, short_path
from rlstudio.core.run_state import Reason

if TYPE_CHECKING:
    from rlstudio.cli.screen.live.progress import Progress
    from rlstudio.experiment.judging.evaluate import Evaluation
    from rlstudio.experiment.run.session import Session


def header(session: Session, origin: str) -> list[str]:
    cfg, topology = session.cfg, session.topology
    steps = f"{text.plural(cfg.train.epochs, 'epoch')} of {cfg.train.steps_per_epoch:,} steps"
    lines = [
        f"run         {session.folder.id}",
        f"experiment  {cfg.name}: {origin}; {steps}; config {session.status.config_hash[:12]}",
        f"algorithm   {cfg.policy.algo}, acting in {topology['acting']}",
        f"environment {_world(session)}, {text.plural(session.runtime.run_envs, 'env')}, seed {cfg.env.seed}",
        f"machine     {topology['device']}, {text.plural(topology['threads'], 'thread')}"
        + (", portable numerics" if cfg.runtime.numerics == "portable" else "")
        + (f", {cfg.runtime.learners} learners over {cfg.runtime.backend}" if cfg.runtime.learners > 1 else ""),
    ]
    if workers := workers_text(session.folder.rollout_workers()):
        lines.append(f"workers     {workers}")
    if session.status.env_steps:
        lines.append(f"goes on     from {session.status.env_steps:,} steps, epoch {session.status.epoch}")
    elif session.folder.sessions() > 1:
        lines.append("goes on     from the beginning: it has no checkpoint yet")
    if not session.status.exact:
        lines.append(f"exact       no: {session.status.exact_reason}")
    return lines


def workers_text(facts: Mapping[str, object]) -> str:
    """`4, process (as configured)`; empty without rollout workers."""
    mode = ", async" if facts.get("mode") == "async" else ""
    return f"{facts['workers']}, {facts['backend']}{mode} ({facts['reason']})" if facts else ""


def _world(session: Session) -> str:
    """CartPole-v1 trains on our own world and is evaluated on the real one: the header says so."""
    from rlstudio.experiment.training.environments import exists_only_here, has_only_a_vector, is_pettingzoo

    env_id, kind = session.cfg.env.id, session.topology["vectorization"]
    origin = "PettingZoo" if is_pettingzoo(env_id) else "Gymnasium"
    if kind in ("sync", "async"):
        return f"{env_id} ({origin}, {kind})"
    if kind == "vector" and has_only_a_vector(session.cfg.env):
        return f"{env_id} (VectorEnv)"
    if exists_only_here(session.cfg.eval_env):
        return f"{env_id} (native world)"
    world = {"native": "native world", "envpool": "EnvPool", "vector": "VectorEnv"}[str(kind)]
    return f"{env_id} ({world} for training, {origin} for evaluation)"


def result(session: Session, progress: Progress) -> list[str]:
    """What came out."""
    status = session.status
    done = status.env_steps - progress.first_step
    part = f", {done:,} of them" if progress.first_step else ""
    why = f": {status.message}" if status.message else ""
    return [
        "",
        f"{status.state.lower():<11} {status.env_steps:,} steps{part} in {text.duration(progress.elapsed)}{why}",
        f"evaluation  {evaluation_text(session.evaluation, status.eval_return, status.eval_interval)}",
        f"folder      {short_path(session.folder.path)}",
        "",
    ]


def stopped_line(session: Session, signum: int) -> str:
    """What is said of a run that a signal stopped."""
    again = f"rlctl resume {session.folder.id}{in_runs_dir(session.folder.path.parent)}"
    name = signal.Signals(signum).name
    return f"stopped by {name} after {session.status.env_steps:,} steps; go on with: {again}"


def advice(session: Session) -> list[str]:
    """What to try next, ready to be copied."""
    from rlstudio.experiment.judging.video import has_pictures
    from rlstudio.experiment.run.continuation import EARLY_ENDS

    run = f"{session.folder.id}{in_runs_dir(session.folder.path.parent)}"
    longer = f"resume {run} train.epochs={2 * session.cfg.train.epochs}"
    if session.status.reason in EARLY_ENDS:
        longer = f"fork {run} {EARLY_ENDS[session.status.reason]}"
    return [
        "try next",
        *activation(),
        f"  rlctl eval {run} --episodes 100",
        *([f"  rlctl play {run} --video out.mp4"] if has_pictures(session.cfg.env) else []),
        f"  rlctl plot {run}",
        f"  rlctl show {run}",
        *([] if session.status.reason == Reason.COLLAPSED else [f"  rlctl {longer}"]),
    ]


def activation() -> list[str]:
    """The line that puts `rlctl` on the PATH, where the shell does not find it (as after `make run`)."""
    script = Path(sys.executable).with_name("activate")
    if shutil.which("rlctl") or not script.exists():
        return []
    return [f"  source {min(os.path.relpath(script), str(script), key=len)}"]


def evaluation_text(evaluation: Evaluation | None, mean: float | None, bounds: tuple[float, float] | None) -> str:
    if evaluation is None:
        return f"mean {text.number(mean)}, 95 % interval {text.interval(bounds)}"
    summary = evaluation.summary
    return (
        f"mean {text.number(summary.mean)}, IQM {text.number(summary.iqm)},"
        f" 95 % interval {text.interval((summary.ci_low, summary.ci_high))} over {text.plural(summary.n, 'episode')}"
    )
