"""The Python API: the same runs as `rlctl`, from a script or a notebook."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlstudio import orchestrator
from rlstudio.control.store.workers import Workers
from rlstudio.control.sweep.sweeps import Sweeps
from rlstudio.control.workspace import Workspace
from rlstudio.core.errors import ConfigError, Conflict, RunNotFound, UserError
from rlstudio.core.host.process import send
from rlstudio.core.run_state import Reason, RunState
from rlstudio.experiment.config.experiment import experiment_from
from rlstudio.orchestrator.live import describe
from support.control_world import owner, request
from support.deadlines import PATIENCE
from support.experiments import tiny_data

TINY = tiny_data()


@pytest.fixture
def runs_dir(tmp_path: Path) -> Iterator[Path]:
    """A place for runs; whatever still serves it is ended."""
    place = tmp_path / "runs"
    yield place
    workspace = Workspace(place)
    if not workspace.is_empty:
        processes = [worker.process for worker in Workers(workspace.store.database).alive()]
        processes += [run.process for run in workspace.store.runs() if run.is_owned and run.has_process]
        for process in processes:
            send(process, 9)


def until(condition: Any) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.05)


def test_run_trains_here_and_is_known_to_everybody(runs_dir: Path) -> None:
    run = orchestrator.run(TINY, "train.epochs=2", seed=5, name="mine", runs_dir=runs_dir, progress=False)
    assert (run.state, run.status.env_steps, run.status.name) == (RunState.COMPLETED, 128, "mine")
    assert run.config.env.seed == 5
    assert run.path.parent == runs_dir
    assert [again.id for again in orchestrator.runs(runs_dir=runs_dir)] == [run.id]
    assert orchestrator.get("mine", runs_dir=runs_dir).id == orchestrator.get("last", runs_dir=runs_dir).id == run.id
    assert [event.state for event in run.history()] == ["QUEUED", "STARTING", "RUNNING", "COMPLETED"]
    assert run.lineage["versions"]["rlstudio"]
    assert run.parent is None
    assert run.id in repr(run)


def test_runs_and_sweeps_are_paused_stopped_and_removed(runs_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlstudio.control.queue.service.ensure_worker", lambda workspace: None)
    workspace = Workspace(runs_dir)
    run = orchestrator.Run(workspace, workspace.store.create(request()).id)
    assert orchestrator.pause(run.id, runs_dir=runs_dir).status.reason == Reason.PAUSED
    assert run.pause().state == RunState.INTERRUPTED
    assert run.resume().state == RunState.QUEUED  # back in the queue, not trained here
    Sweeps(workspace.store.database).create("mine", "{}", owner())
    trial = workspace.store.create(request(sweep="mine", trial=0))
    orchestrator.stop_sweep("mine", runs_dir=runs_dir)
    assert workspace.store.get(trial.id).is_paused
    orchestrator.remove_sweep("mine", runs_dir=runs_dir)
    assert [left.id for left in orchestrator.runs(runs_dir=runs_dir)] == [run.id]


def test_runs_are_found_by_name_filter_and_tag(runs_dir: Path) -> None:
    workspace = Workspace(runs_dir)
    ids = [workspace.store.create(request(name=name)).id for name in ("many", "many", "other")]
    first, second, other = (orchestrator.Run(workspace, run_id) for run_id in ids)
    assert first.tag("paper", "table").untag("table").tags == ("paper",)
    assert (other.tags, other.write_note("why").note) == ((), "why")

    def found(**chosen: Any) -> list[str]:
        return [run.id for run in orchestrator.runs(runs_dir=runs_dir, **chosen)]

    assert found(words=["many"]) == [second.id, first.id]
    assert found(words=["many"], limit=1) == [second.id]
    assert found(tags=["paper"]) == [first.id]
    assert found(states=["failed"]) == found(words=["other"], tags=["paper"]) == []
    with pytest.raises(UserError, match="unknown; did you mean failed"):
        found(states=["faild"])
    with pytest.raises(UserError, match="2 runs have this name"):
        orchestrator.get("many", runs_dir=runs_dir)
    assert orchestrator.get(other.handle, runs_dir=runs_dir).id == other.id


def test_a_session_is_a_run_that_the_store_knows_and_can_be_left_and_gone_on_with(runs_dir: Path) -> None:
    with orchestrator.session(TINY, "train.epochs=4", seed=5, name="looped", runs_dir=runs_dir) as session:
        for tick in session:
            if tick.report and tick.epoch == 2:
                break
    run = orchestrator.get("looped", runs_dir=runs_dir)
    assert (run.id, run.state, run.status.epoch) == (session.folder.id, RunState.INTERRUPTED, 2)
    assert run.lineage["versions"]["rlstudio"]
    with run.session() as again:
        epochs = [tick.epoch for tick in again if tick.report]
    assert (epochs, run.state) == ([3, 4], RunState.COMPLETED)
    straight = orchestrator.run(TINY, "train.epochs=4", seed=5, runs_dir=runs_dir, progress=False)
    assert straight.status.state_hash == run.status.state_hash


def test_a_config_may_be_a_file_plain_data_or_an_experiment(runs_dir: Path, tmp_path: Path) -> None:
    shipped = ["train.epochs=1", "train.steps_per_epoch=64", "train.rollout_steps=8", "train.batch_size=64"]
    small = [*shipped, "eval.every_epochs=0", "eval.final_episodes=1"]
    from_file = orchestrator.run("configs/ppo/cartpole.yaml", *small, runs_dir=runs_dir, progress=False)
    cfg = experiment_from(TINY)
    from_object = orchestrator.run(cfg, "train.epochs=1", runs_dir=runs_dir, progress=False)
    from_data = orchestrator.run(TINY, "train.epochs=1", runs_dir=runs_dir, progress=False)
    assert from_file.status.env_id == "CartPole-v1"
    assert from_object.status.config_hash == from_data.status.config_hash
    assert from_object.status.state_hash == from_data.status.state_hash  # the same seed: the same bits


def test_metrics_are_arrays_without_pandas(runs_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    run = orchestrator.run(TINY, runs_dir=runs_dir, progress=False)
    everything = run.metrics()
    steps, values = run.metrics("train/entropy")["train/entropy"]
    assert steps.tolist() == [64, 128, 192]
    assert np.isfinite(values).all()
    assert everything.keys() > {"train/entropy"}
    with pytest.raises(UserError, match=r"no metric 'train/entropi'; it has: .*train/entropy"):
        run.metrics("train/entropi")


def test_metrics_are_a_frame_with_pandas(runs_dir: Path) -> None:
    import pandas as pd

    run = orchestrator.run(TINY, "eval.every_epochs=1", runs_dir=runs_dir, progress=False)
    frame = run.metrics("train/entropy", "eval/return_mean")
    assert isinstance(frame, pd.DataFrame)
    assert frame.index.name == "env_steps"
    assert frame.index.tolist() == [0, 64, 128, 192]  # evaluated before the first step too
    assert frame["train/entropy"].iloc[1:].notna().all()
    # The last epoch is evaluated twice, the second time on the seeds that count.
    assert frame["eval/return_mean"].iloc[-1] == run.status.eval_return


def test_the_agent_acts_and_is_judged(runs_dir: Path) -> None:
    run = orchestrator.run(TINY, runs_dir=runs_dir, progress=False)
    assert run.agent().act(np.zeros(4, np.float32)) in (0, 1)
    evaluation = run.evaluate(episodes=3, seed=1)
    assert evaluation.summary.min >= 1
    assert len(evaluation.lengths) == 3


def test_resume_extends_a_finished_run(runs_dir: Path) -> None:
    run = orchestrator.run(TINY, runs_dir=runs_dir, progress=False)
    longer = orchestrator.resume(run.id, "train.epochs=5", runs_dir=runs_dir, progress=False)
    assert (longer.id, longer.state, longer.status.epoch) == (run.id, RunState.COMPLETED, 5)
    with pytest.raises(UserError, match="completed its 5 epochs"):
        orchestrator.resume(run.id, runs_dir=runs_dir)
    whole = orchestrator.run(TINY, "train.epochs=5", "train.lr_schedule=constant", runs_dir=runs_dir, progress=False)
    assert whole.status.env_steps == longer.status.env_steps


@pytest.mark.real_process
def test_launch_stop_resume_and_fork_in_the_background(runs_dir: Path) -> None:
    long = tiny_data(train={"epochs": 1_000_000})
    run = orchestrator.launch(long, key="once", runs_dir=runs_dir)
    assert orchestrator.launch(long, key="once", runs_dir=runs_dir).id == run.id
    with pytest.raises(TimeoutError, match="it goes on"):
        run.wait(0.01, progress=False)
    until(lambda: run.status.epoch >= 2)
    assert run.stop().wait(PATIENCE, progress=False).state == RunState.INTERRUPTED
    assert run.status.reason == Reason.USER
    done = run.status.epoch
    child = run.fork(f"train.epochs={done + 2}", name="child").wait(PATIENCE, progress=False)
    assert (child.state, child.status.epoch) == (RunState.COMPLETED, done + 2)
    assert child.parent is not None
    assert child.parent.id == run.id
    assert run.cancel().state == RunState.CANCELLED
    with pytest.raises(Conflict, match="nothing to stop"):
        run.stop()


def test_mistakes_are_one_line(runs_dir: Path) -> None:
    with pytest.raises(ConfigError, match=r"train\.epoch: unknown key; did you mean epochs\?"):
        orchestrator.run(TINY, "train.epoch=3", runs_dir=runs_dir)
    with pytest.raises(RunNotFound, match="there are no runs"):
        orchestrator.get("last", runs_dir=runs_dir)
    assert not runs_dir.exists()  # nothing is left by a refusal


def test_an_error_in_training_is_raised_and_told(runs_dir: Path) -> None:
    from rlstudio.core.errors import GateFailed

    with pytest.raises(GateFailed):
        orchestrator.run({**TINY, "gates": {"min_return": 1e6}}, runs_dir=runs_dir, progress=False)
    (run,) = orchestrator.runs(runs_dir=runs_dir)
    assert (run.state, run.status.reason) == (RunState.FAILED, Reason.GATE_FAILED)


def test_one_line_of_progress(runs_dir: Path) -> None:
    run = orchestrator.run(TINY, runs_dir=runs_dir, progress=False)
    line = describe(run.status)
    assert line.startswith("tiny  " + "█" * 20)
    returns = f"train {run.status.train_return:.4g}  eval {run.status.eval_return:.4g}"  # two returns, two names
    assert f"epoch 3/3  192 steps  {returns}" in line
    assert line.endswith("completed")


def test_importing_it_is_light() -> None:
    code = "import sys; from rlstudio import orchestrator; print({'torch', 'numpy', 'pandas'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=PATIENCE)
    assert done.stdout.strip() == "set()"
