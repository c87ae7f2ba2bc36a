"""One run of one seed, launched as a user would, from its YAML file or by the names of algorithm and environment; then
its last checkpoint is loaded and judged. Where a folder `bundle` is named, the judged policy is written there."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from episodes import play
from measure import answer, job

from rlstudio import orchestrator
from rlstudio.cli.arguments.experiments import ExperimentRequest, choose
from rlstudio.delivery.export import export_run
from rlstudio.envs.make import make_single
from rlstudio.experiment.metrics.reader import read_metrics
from rlstudio.experiment.run.load import load_agent


def main() -> None:
    spec = job()
    overrides = [f"env.seed={spec['seed']}", f"runtime.threads={spec['threads']}", *spec["overrides"]]
    names = spec.get("config"), spec.get("algo"), spec.get("env_id")
    (cfg,) = choose(ExperimentRequest(*names, overrides)).experiments
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as runs:
        with orchestrator.session(cfg, runs_dir=runs) as session:
            env_steps = [tick.env_steps for tick in session][-1]
        seconds = time.perf_counter() - began
        curve = [(x.step, x.value) for x in read_metrics(session.folder.path, ["eval/return_mean"])]
        agent = load_agent(session.folder.path, "last")
        returns = play(lambda: agent.episode().act, make_single(cfg.env), spec["episodes"], spec["first_seed"])
        if "bundle" in spec:
            export_run(session.folder, Path(spec["bundle"]), formats=("bundle",))
    answer(returns=returns, env_steps=env_steps, seconds=round(seconds, 1), curve=curve)


if __name__ == "__main__":
    main()
