"""Runs that several ranks learn, in threads: what they write, how they go on, what they refuse."""

import json
import os
import signal

import numpy as np
import pytest
import torch

from rlstudio.core.catalog import ALGOS
from rlstudio.core.errors import ConfigError, Incompatible
from rlstudio.core.own_metrics import OWN_METRICS
from rlstudio.core.run_state import RunState
from rlstudio.data.replay import buffer
from rlstudio.envs.gym import worker_handle
from rlstudio.experiment.folder.run_folder import RunFolder
from rlstudio.scale.ranks.shared import digest
from support.datasets import DATASET, recorded_dataset
from support.experiments import tiny
from support.sessions import resume, start
from support.tiny_runs import assert_same_result

pytestmark = pytest.mark.own_process  # gloo is used here

TWO = {"learners": 2}


def to_the_end(session) -> RunFolder:
    with session:
        for _ in session:
            pass
        return session.folder


SMALL = {
    "bc": {"train": {"dataset": DATASET}},
    "ppo": {"policy": {"network": {"normalize_observations": True}}, "train": {"normalize_rewards": True}},
    "qrdqn": {"train": {"prioritized": {}, "n_step": 2}, "guardrails": {"rollback_every_epochs": 2}},
    "sac": {"env": {"num_envs": 4}, "rollout": {"workers": 4, "backend": "local"}},
}


@pytest.fixture(scope="module", autouse=True)
def _dataset(tmp_path_factory):
    """What `bc` learns from."""
    with recorded_dataset(tmp_path_factory.mktemp("datasets")):
        yield


SLOW = ("a2c", "dqn", "td3", "mbmpc", "diffusion")


def test_every_algorithm_that_learns_is_learned_by_two_ranks():
    assert {*SMALL, *SLOW, "mpc"} == {*ALGOS.builtin}, "mpc learns nothing"


@pytest.mark.parametrize("algo", [*SMALL, *(pytest.param(algo, marks=pytest.mark.slow) for algo in SLOW)])
def test_a_run_of_two_ranks_that_is_left_goes_on_bit_for_bit(algo, tmp_path, thread_ranks, monkeypatch):
    """With normalizers, prioritised replay whose full segments are fetched from the other rank, workers, a dataset, and
    evaluations."""
    monkeypatch.setattr(buffer, "SEGMENT_ROWS", 16)
    cfg = tiny(algo, runtime=TWO, eval={"every_epochs": 2, "episodes": 2}, **SMALL.get(algo, {}))
    whole = to_the_end(start(cfg, tmp_path / "whole"))
    session = start(cfg, tmp_path / "parts")
    with session:
        for tick in session:
            if tick.report is not None and tick.epoch == 2:
                break
    assert session.status.state == RunState.INTERRUPTED
    assert thread_ranks.started == 2
    folder = to_the_end(resume(session.folder))
    assert_same_result(folder, whole)
    newest = max((folder.path / "checkpoints").glob("step-*"))
    manifest = json.loads(newest.joinpath("MANIFEST.json").read_text())
    assert manifest["topology"]["learners"] == "2 over gloo"
    names = {ref["name"].partition("rows-")[0] for ref in manifest["segments"]}
    assert names == (set() if algo in ("a2c", "bc", "ppo") else {"", "rank-1/"})


def test_ranks_share_the_environments_and_the_rows_of_a_run(tmp_path, thread_ranks):
    cfg = tiny("sac", runtime=TWO, env={"num_envs": 4})
    with start(cfg, tmp_path) as session:
        for tick in session:
            other = thread_ranks.parts[1]
            assert digest(other.trainer) == digest(session.trainer.own)
            if tick.gradient_steps == 4:
                break
        own = session.trainer.own
        assert (session.runtime.num_envs, other.runtime.num_envs) == (2, 2)
        assert session.runtime.run_envs == 4
        assert [len(trainer.source.last) for trainer in (own, other.trainer)] == [8, 8]
        assert [trainer.source.replay.capacity for trainer in (own, other.trainer)] == [128, 128]
        held = [trainer.source.replay.all().observations for trainer in (own, other.trainer)]
        assert len(held[0]) * 2 == session.trainer.source.env_steps
    whole = tiny("sac", env={"num_envs": 4})
    with start(whole, tmp_path) as session:
        first = session.runtime.env.reset()
    assert np.array_equal(torch.cat([rows[:2] for rows in held]), first), "the episodes are those of one process"


def test_workers_of_two_ranks_die_and_no_bit_changes(tmp_path, thread_ranks, monkeypatch):
    """Each rank has two workers with two environments of the run, and replaces its own."""
    monkeypatch.setattr(worker_handle, "PAUSES", (0.0,))
    hashes = []
    for backend in ("local", "process"):
        rollout = {"workers": 4, "backend": backend}
        cfg = tiny("ppo", runtime=TWO, env={"num_envs": 8, "vectorization": "sync"}, rollout=rollout)
        with start(cfg, tmp_path / backend) as session:
            for number, _ in enumerate(session):
                own, other = session.runtime, thread_ranks.parts[1].runtime
                if number == 0 and backend == "process":
                    for runtime in (own, other):
                        os.kill(runtime.crew._hosts[1].pid, signal.SIGKILL)
            hashes.append(max(session.writer.checkpoints.list(), key=lambda info: info.step).state_hash)
            reasons = [event["reason"] for event in session.folder.events() if event["kind"] == "env_restarted"]
        assert [len(runtime.crew.slices) for runtime in (own, other)] == [2, 2]
        assert session.folder.rollout_workers()["workers"] == 4
        other.close()
    assert hashes[0] == hashes[1]
    assert reasons == [f"envs {first} to {first + 1}: its worker killed by SIGKILL" for first in (2, 6)]


@pytest.mark.parametrize("workers", [None, 4])
def test_environments_of_all_ranks_have_the_seeds_of_one_process(workers, tmp_path, thread_ranks):
    env = {"num_envs": 4, "vectorization": "sync"}
    rollout = {} if workers is None else {"workers": workers, "backend": "local"}
    with start(tiny("sac", runtime=TWO, env=env, rollout=rollout), tmp_path) as session:
        next(iter(session))
        trainers = session.trainer.own, thread_ranks.parts[1].trainer
        firsts = torch.cat([trainer.source.replay.all().observations[:2] for trainer in trainers])
    with start(tiny("sac", env=env), tmp_path) as alone:
        assert np.array_equal(firsts, alone.runtime.env.reset())


def test_what_is_reported_is_of_all_ranks(tmp_path, thread_ranks):
    cfg = tiny("ppo", runtime=TWO, env={"num_envs": 4}, train={"epochs": 1, "steps_per_epoch": 256})
    with start(cfg, tmp_path) as session:
        reports = [tick.report for tick in session if tick.report is not None]
        episodes = reports[-1].metrics["rollout/episodes"]
    with start(tiny("ppo", env={"num_envs": 4}, train={"epochs": 1, "steps_per_epoch": 256}), tmp_path) as alone:
        one = [tick.report.metrics for tick in alone if tick.report is not None][-1]
    assert episodes >= 4
    assert abs(episodes - one["rollout/episodes"]) <= 4, "about as many as in one process"
    assert reports[-1].env_steps == 256


@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_a_diverged_run_of_two_ranks_rolls_back_in_both(tmp_path, thread_ranks):
    cfg = tiny(
        "a2c",
        runtime=TWO,
        guardrails={"rollback_every_epochs": 1, "max_rollbacks": 1, "max_skipped": 0.0},
    )
    with start(cfg, tmp_path) as session:
        poisoned = False
        for tick in session:
            if tick.epoch == 1 and not poisoned and tick.report is not None:
                thread_ranks.parts[1].trainer.source.collector.env = Overflowing(thread_ranks.parts[1].runtime.env)
                poisoned = True
        assert [event["kind"] for event in session.folder.events()].count("rolled_back") == 1
        assert session.attempt == 1
        assert digest(thread_ranks.parts[1].trainer) == digest(session.trainer.own)
    assert session.status.state == RunState.COMPLETED


class Overflowing:
    """Its rewards make the loss of this rank, and so the gradient of all, not finite."""

    def __init__(self, env) -> None:
        self.env = env

    def __getattr__(self, name):
        return getattr(self.env, name)

    def step(self, actions):
        step = self.env.step(actions)
        return step._replace(rewards=np.full_like(step.rewards, 1e38), truncated=np.zeros_like(step.truncated))


def test_what_other_ranks_log_is_part_of_the_metrics():
    OWN_METRICS.start({"distance": [4.0, 2]})
    OWN_METRICS.add({"distance": [2.0, 2], "speed": [3.0, 1]})
    assert OWN_METRICS.take() == {"own/distance": 1.5, "own/speed": 3.0}


def test_a_run_goes_on_with_as_many_ranks_as_before(tmp_path, thread_ranks):
    folder = to_the_end(start(tiny("dqn", runtime=TWO, env={"num_envs": 4}, train={"epochs": 1}), tmp_path))
    text = folder.config_path.read_text()
    for learners in (1, 4):
        folder.config_path.write_text(text.replace("learners: 2", f"learners: {learners}"))
        with pytest.raises(Incompatible, match=r"runtime.learners: 2 learned it, .* as many go on; set it to 2"):
            resume(folder, ["train.epochs=4"], allow_inexact=True)
    assert thread_ranks.started == 1


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"env": {"num_envs": 3}}, "env.num_envs: 3 cannot be divided among 2 learners (runtime.learners); 4 can"),
        ({"train": {"batch_size": 15}}, "train.batch_size: 15 cannot be divided among 2 learners"),
        ({"buffer": {"capacity": 255}}, "buffer.capacity: 255 cannot be divided among 2 learners"),
        ({"runtime": {"backend": "nccl"}}, "runtime.backend: nccl is for GPUs, and runtime.device is auto"),
        (
            {"env": {"num_envs": 4}, "rollout": {"workers": 3}},
            "rollout.workers: 3 cannot be divided among 2 learners (runtime.learners); 4 can",
        ),
        (
            {"env": {"num_envs": 4}, "rollout": {"workers": 2, "mode": "async"}},
            "rollout.mode: async workers fill one learner only, and runtime.learners is 2; use sync",
        ),
        ({"env": {"id": "mpe2/simple_spread_v3"}}, "runtime.learners: mpe2/simple_spread_v3 is PettingZoo's"),
        (
            {"curriculum": {"anneal": {"start": {"gravity": 9}, "end": {"gravity": 5}}}},
            "runtime.learners: 2 learners cannot train with curriculum yet; leave one of them out",
        ),
    ],
)
def test_what_ranks_cannot_share_is_refused_by_name(changes, line):
    settings = {"runtime": {**TWO, **changes.get("runtime", {})}}
    with pytest.raises(ConfigError) as refused:
        tiny("dqn", **{**changes, **settings})
    assert line in str(refused.value)
