"""One run in one process: how it ends, what it leaves behind, and how it heals."""

import json
import math
from dataclasses import replace
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from rlstudio.core.errors import (
    CheckpointError,
    ConfigError,
    Diverged,
    EnvFault,
    GateFailed,
    Incompatible,
    Notice,
    NoValidCheckpoint,
    RunBusy,
    UserError,
)
from rlstudio.core.run_state import RunState
from rlstudio.envs.worlds.native import NativeVecEnv
from rlstudio.experiment.checkpoint.checkpoints import Checkpoints
from rlstudio.experiment.folder.run_folder import RunFolder
from rlstudio.experiment.judging.guardrails import Guardrails
from rlstudio.experiment.metrics.reader import read_metrics
from rlstudio.experiment.run.load import load_agent
from rlstudio.experiment.training.build import build_runtime, build_trainer
from rlstudio.experiment.training.loop import Position, train
from support.kills import kill_and_compare, uninterrupted
from support.processes import in_child
from support.sessions import resume, start
from support.tiny_runs import TRAIN, assert_same_result, config, only_run, run_to_the_end


def kinds(run: RunFolder) -> list[str]:
    return [event["kind"] for event in run.events()]


def test_a_run_leaves_everything_it_promises(tmp_path):
    run = run_to_the_end(config("ppo", "native", tracking={"sinks": ["csv", "tensorboard"]}), tmp_path)
    status = run.read_status()
    assert (status.state, status.epoch, status.env_steps) == (RunState.COMPLETED, 12, 12 * 128)
    assert status.gradient_steps == 12 * 4 * 2  # epochs x rollouts' minibatches x passes: 128 / 32 rows, twice
    assert status.exact
    assert status.eval_return is not None
    records = list(read_metrics(run.path))
    keys = {record.key for record in records}
    assert {"rollout/return_mean", "train/policy_loss", "train/kl", "eval/return_iqm", "time/steps_per_second"} <= keys
    assert all(("clock" in record.tags) == record.key.startswith(("time/", "system/")) for record in records)
    assert {record.step for record in records if record.key == "train/kl"} == {128 * n for n in range(1, 13)}
    assert (run.path / "artifacts/metrics.csv").read_text().count("\n") == len(records) + 1
    assert list((run.path / "artifacts/tensorboard").iterdir())
    assert kinds(run)[0] == "created"
    assert kinds(run)[-1] == "completed"


def test_the_loop_is_a_plain_generator():
    """What a notebook does: no folder, no session."""
    cfg = config("ppo", "native")
    env = build_runtime(cfg)
    trainer = build_trainer(cfg, env)
    reports = [tick.report for tick in train(trainer, cfg.train, Position()) if tick.report]
    assert [report.epoch for report in reports] == list(range(1, 13))
    assert all(math.isfinite(report.metrics["train/value_loss"]) for report in reports)


def test_leaving_the_loop_leaves_a_run_that_can_go_on(tmp_path):
    whole = run_to_the_end(config("dqn", "native"), tmp_path / "whole")
    with start(config("dqn", "native"), tmp_path / "left") as session:
        for tick in session:
            if tick.gradient_steps == 77:
                break
    left = only_run(tmp_path / "left")
    assert left.read_status().state == RunState.INTERRUPTED
    run_to_the_end(config("dqn", "native"), tmp_path / "left")
    assert_same_result(left, whole)


def test_a_trained_agent_acts_in_three_lines(tmp_path):
    run = run_to_the_end(config("ppo", "sync"), tmp_path)
    agent = load_agent(run.path)
    assert agent.act(np.zeros(4, np.float32)) in (0, 1)
    assert agent.act(np.zeros((5, 4), np.float32)).shape == (5,)
    for which in ("best", "1536"):
        assert load_agent(run.path, which).act(np.zeros(4, np.float32)) in (0, 1)
    with pytest.raises(UserError, match=r"no checkpoint '7'; it has: last, best, 1536"):
        load_agent(run.path, "7")


def test_a_finished_run_is_extended_and_equals_the_longer_one(tmp_path):
    """With constant schedules the first half of a long run is the short run."""
    constant = {"lr_schedule": "constant"}
    long = config("ppo", "native", train={**TRAIN["ppo"], **constant, "epochs": 12})
    short = config("ppo", "native", train={**TRAIN["ppo"], **constant, "epochs": 6})
    whole = run_to_the_end(long, tmp_path / "long")
    run = run_to_the_end(short, tmp_path / "short")
    with pytest.raises(UserError, match=r"completed its 6 epochs; extend it with: rlctl resume .* train.epochs=12"):
        resume(run)
    with pytest.raises(ConfigError, match=r"only train\.epochs can change"):
        resume(run, ["train.lr=1"])
    with resume(run, ["train.epochs=12"]) as session:
        for _ in session:
            pass
    mine, theirs = (
        Checkpoints(r.path, r.id, None).newest_good().loaded.content["module_state"]["model"] for r in (run, whole)
    )
    assert all(np.array_equal(mine[name], theirs[name]) for name in theirs)
    assert run.read_status().config_hash == whole.read_status().config_hash
    assert "epochs: 12" in run.read_config()


def test_what_was_done_before_an_extension_and_is_done_again_is_not_exact(tmp_path):
    """Newcomer S1: by the schedules of the longer run other bits came, and the run was still called exact."""
    run = run_to_the_end(config("ppo", "native", train={**TRAIN["ppo"], "epochs": 6}), tmp_path)
    with resume(run, ["train.epochs=12"]):
        pass
    newest, before, *_ = Checkpoints(run.path, run.id, None).list()
    damage(run.path / f"checkpoints/step-{newest.step:012d}/tensors.safetensors")
    with pytest.warns(Notice):
        session = resume(run)
    with session:
        assert not session.status.exact
        assert f"goes on from {before.step:,} steps, and was extended at {newest.step:,}" in session.status.exact_reason


# -- gates and guardrails -------------------------------------------------------------------------------------------


def test_a_gate_that_fails_ends_the_run_as_failed(tmp_path):
    cfg = config("ppo", "native", gates={"min_return": 499.0, "warmup_epochs": 5, "patience": 1})
    with pytest.raises(GateFailed, match=r"min_return"):
        run_to_the_end(cfg, tmp_path)
    status = only_run(tmp_path).read_status()
    assert (status.state, status.reason) == (RunState.FAILED, "gate_failed")
    assert status.epoch < 12


def test_a_run_that_diverges_again_and_again_fails_after_three_roll_backs(tmp_path):
    cfg = config("ppo", "native", guardrails={"limits": {"train/value_loss": 1e-9}, "rollback_every_epochs": 1})
    with pytest.raises(Diverged, match="no attempt of 4 went well"):
        run_to_the_end(cfg, tmp_path)
    run = only_run(tmp_path)
    assert (run.read_status().state, run.read_status().reason) == (RunState.FAILED, "diverged")
    assert kinds(run).count("rolled_back") == 3


def diverge_once_at(monkeypatch, epoch: int) -> None:
    judge = Guardrails.judge

    def judged(self, report, trainer):
        first = "attempt" not in trainer.source.collector._noise.rng.path
        return "a made-up reason" if report.epoch == epoch and first else judge(self, report, trainer)

    monkeypatch.setattr(Guardrails, "judge", judged)


@pytest.mark.real_process
@pytest.mark.parametrize(("epoch", "back_to"), [(7, 5 * 128), (3, 0)])
def test_one_divergence_rolls_back_to_the_grid_and_goes_another_way(epoch, back_to, tmp_path, monkeypatch):
    length = {**TRAIN["ppo"], "epochs": 8}
    cfg = config("ppo", "native", train=length)
    plain = run_to_the_end(cfg, tmp_path / "plain")
    diverge_once_at(monkeypatch, epoch)
    twin = uninterrupted(cfg, tmp_path / "healed")
    healed = twin.folder
    (rolled,) = [event for event in healed.events() if event["kind"] == "rolled_back"]
    assert (rolled["to_env_steps"], rolled["attempt"]) == (back_to, 1)
    assert healed.read_status().state == RunState.COMPLETED
    assert healed.read_status().state_hash != plain.read_status().state_hash
    steps = [record.step for record in read_metrics(healed.path, keys={"train/kl"})]
    assert steps == [128 * n for n in range(1, 9)]  # the epochs that were taken back are told once

    for i, ckpt in enumerate([{"every_seconds": 1e-9}, {"every_epochs": 1}]):
        other = run_to_the_end(config("ppo", "native", train=length, ckpt=ckpt), tmp_path / str(i))
        assert_same_result(other, healed)  # checkpoint timing changes nothing, roll-back or not

    assert len(kill_and_compare(cfg, twin, tmp_path / "killed", kills=1, seed=epoch)) == 1


class Poisoned(gymnasium.Env):
    """CartPole-like numbers, with a NaN reward every `every` steps."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, every: int = 1000, render_mode=None):
        self.every, self.steps = every, 0

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.steps += 1
        reward = math.nan if self.steps % self.every == 0 else 1.0
        return np.full(2, self.steps / 100, np.float32), reward, False, self.steps >= 50, {}


gymnasium.register("Poisoned-v0", Poisoned)


def poisoned(every: int, share: float, algo: str = "ppo"):
    env = {"id": "Poisoned-v0", "num_envs": 2, "vectorization": "sync", "kwargs": {"every": every}}
    evaluation = {"every_epochs": 0, "final_episodes": 1}
    return config(algo, "sync", env=env, guardrails={"max_bad_rows": share}, eval=evaluation)


@pytest.mark.parametrize("algo", ["ppo", "dqn"])
def test_bad_rows_never_enter_learning_and_are_counted(algo, tmp_path):
    cfg = poisoned(40, 0.05, algo)
    env = build_runtime(cfg)
    trainer = build_trainer(cfg, env)
    reports = [tick.report for tick in train(trainer, cfg.train, Position()) if tick.report]
    assert trainer.source.collector.inspection.guard.counts["rewards"] > 0
    assert all(math.isfinite(v) for r in reports for k, v in r.metrics.items() if k.endswith("loss"))
    assert float(trainer.optimizer.skipped) == 0
    assert sum(report.metrics["guard/bad_row_share"] for report in reports) > 0


def test_too_many_bad_rows_are_the_environments_fault(tmp_path):
    with pytest.raises(EnvFault, match=r"rows were bad \(rewards"):
        run_to_the_end(poisoned(2, 0.01), tmp_path)
    assert only_run(tmp_path).read_status().reason == "env_fault"


# -- integrity ------------------------------------------------------------------------------------------------------


def interrupted_run(tmp_path: Path, epochs: int = 9) -> RunFolder:
    """A run that stopped with several checkpoints."""
    cfg = config("ppo", "native", ckpt={"every_seconds": None, "every_epochs": 1, "keep_last": 3})
    with start(cfg, tmp_path) as session:
        for tick in session:
            if tick.epoch == epochs:
                break
    run = only_run(tmp_path)
    run.write_status(replace(run.read_status(), state=RunState.INTERRUPTED))
    return run


def damage(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


def test_a_damaged_checkpoint_is_named_and_the_newest_good_one_is_used(tmp_path):
    run = interrupted_run(tmp_path)
    infos = Checkpoints(run.path, run.id, None).list()
    damage(run.path / f"checkpoints/step-{infos[0].step:012d}/tensors.safetensors")
    said = f"its checkpoint at {infos[0].step:,} steps is damaged and was passed over: .*tensors.safetensors"
    with pytest.warns(Notice, match=said):  # Newcomer S2: only an event knew it
        load_agent(run.path)
    with pytest.warns(Notice, match=said):
        session = resume(run)
    with session:
        assert session.status.env_steps == infos[1].step
        assert session.status.eval_return is None  # Newcomer S2: `ls` showed one that was cut from the metrics
        for _ in session:
            pass
    (rejected,) = [event for event in run.events() if event["kind"] == "checkpoint_rejected"]
    assert "tensors.safetensors" in rejected["reason"]
    assert run.read_status().state == RunState.COMPLETED


def test_when_none_is_good_the_run_says_so_and_does_not_start_afresh(tmp_path):
    run = interrupted_run(tmp_path)
    for info in Checkpoints(run.path, run.id, None).list():
        damage(run.path / f"checkpoints/step-{info.step:012d}/state.json")
    with pytest.raises(NoValidCheckpoint, match=r"state\.json"):
        resume(run)
    status = run.read_status()
    assert (status.state, status.reason) == (RunState.FAILED, "no_valid_checkpoint")


def test_a_checkpoint_of_another_shape_is_refused(tmp_path):
    run = interrupted_run(tmp_path)
    text = run.read_config().replace("- 16", "- 17").replace("[16]", "[17]")
    assert "17" in text
    run.write_config(text)
    with pytest.raises(CheckpointError, match=r"does not fit model: .*float32\[16"):
        resume(run, allow_inexact=True)


def test_another_topology_is_refused_unless_accepted(tmp_path, monkeypatch):
    run = interrupted_run(tmp_path)
    monkeypatch.setattr(NativeVecEnv, "vectorization", "other")
    with pytest.raises(Incompatible, match=r"vectorization native -> other.*--allow-inexact"):
        resume(run)


def test_accepting_another_topology_is_remembered(tmp_path):
    run = interrupted_run(tmp_path)
    run.write_config(run.read_config().replace("threads: 1", "threads: 2"))
    with pytest.raises(Incompatible, match="threads 1 -> 2"):
        resume(run)
    with resume(run, allow_inexact=True) as session:
        for _ in session:
            pass
    status = run.read_status()
    assert not status.exact
    assert "threads 1 -> 2" in status.exact_reason
    assert not Checkpoints(run.path, run.id, None).list()[0].fields["exact"]


def test_a_second_process_is_refused(tmp_path):
    with start(config("ppo", "native"), tmp_path) as session:
        next(iter(session))
        with pytest.raises(RunBusy, match="is writing it"):
            resume(session.folder)


@pytest.mark.real_process
@pytest.mark.parametrize("every", [19, pytest.param(7, marks=pytest.mark.slow)])
def test_a_full_disk_leaves_the_previous_checkpoint_and_the_run_goes_on_later(tmp_path, monkeypatch, every):
    from rlstudio.storage import failpoint

    whole = run_to_the_end(config("ppo", "native"), tmp_path / "whole")
    for number in range(60, 100, every):
        runs_dir = tmp_path / str(number)

        def full(number=number, runs_dir=runs_dir):
            monkeypatch.setenv(failpoint.VARIABLE, f"{number}:enospc")
            failpoint.restart()
            run_to_the_end(config("ppo", "native"), runs_dir)

        assert in_child(full) != 0
        status = only_run(runs_dir).read_status()
        assert status.state == RunState.INTERRUPTED, status
        assert_same_result(run_to_the_end(config("ppo", "native"), runs_dir), whole)


def test_a_config_that_cannot_run_leaves_nothing_behind(tmp_path, eight_gigabytes):
    impossible = config("dqn", "native", buffer={"capacity": 10**9})
    with pytest.raises(ConfigError, match=r"buffer.capacity: 1,000,000,000 rows of \d+ bytes need .* GiB"):
        start(impossible, tmp_path / "runs")
    pendulum = config("dqn", "native", env={"id": "Pendulum-v1", "num_envs": 2})
    with pytest.raises(Incompatible, match=r"dqn needs Discrete actions, but Pendulum-v1 takes Box"):
        start(pendulum, tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_status_is_json_a_person_can_read(tmp_path):
    run = run_to_the_end(config("ppo", "native"), tmp_path)
    assert json.loads((run.path / "status.json").read_text())["state"] == "COMPLETED"
