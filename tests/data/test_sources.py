"""Sources of a replay: one that lies is found and weighs nothing, healthy ones never are, and a row knows whence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from benchmarks.lying_env import LIES, LyingEnvs
from benchmarks.poison import AFTER, ENVS, WITHIN, experiment, poisoned

from rlstudio.core.batch import Batch
from rlstudio.core.contracts import Contributor
from rlstudio.core.spaces import Box, Discrete, Spaces
from rlstudio.data.replay.buffer import ReplayBuffer
from rlstudio.data.replay.provenance import fragment_before, samples_before
from rlstudio.data.replay.source import ReplaySource
from rlstudio.data.replay.sources import Sources
from rlstudio.experiment.checkpoint.checkpoints import state_hash
from rlstudio.experiment.checkpoint.snapshot import capture, restore
from rlstudio.experiment.checkpoint.state_hash import state_tree_of
from rlstudio.experiment.training.build import build_runtime, build_trainer
from rlstudio.experiment.training.loop import train
from rlstudio.experiment.training.position import Position
from rlstudio.storage.state_tree import Tree, rebuild

RARELY = {"learning_starts": 1000, "train_every": 64, "gradient_steps": 1, "batch_size": 16}
STEPS = AFTER * ENVS + WITHIN


def quick(algo: str, seed: int, **more: Any) -> Any:
    return experiment(algo, seed, STEPS, **RARELY, **more)


def test_one_that_lies_is_found() -> None:
    """Ten of them at least nine times within 5,000 rows: each lie of the benchmark in each world, and two more."""
    cases = [(algo, lie, seed) for seed, algo in enumerate(("dqn", "sac")) for lie in LIES]
    cases += [("dqn", "shuffled", 2), ("sac", "rewards", 3)]
    ends = {case: poisoned(quick(case[0], case[2]), case[1]) for case in cases}
    found = [case for case, end in ends.items() if f"env {case[2] % ENVS}:" in end.found and (end.rows or 0) <= WITHIN]
    print(f"found {len(found)} of {len(cases)}, after {max(end.rows or 0 for end in ends.values()):,} rows at most")
    assert len(found) >= 9, ends


@pytest.mark.parametrize("liar", [None, 1])
def test_rewards_in_another_unit_are_found_where_most_are_near_0(liar: int | None) -> None:
    """An agent that does well has few rewards of any size: ten times as large, most are still small."""
    steps, generator = 1024, torch.Generator().manual_seed(0)
    seen = 2 * torch.rand((steps, 3, 2), generator=generator) - 1
    seen[..., 0] = torch.where(torch.rand((steps, 3), generator=generator) < 0.07, -1.0, -0.001)
    rewards = 10 * seen[..., 0]
    if liar is not None:
        rewards[:, liar] *= 10
    columns = {"observations": seen, "next_observations": seen, "actions": torch.zeros((steps, 3), dtype=torch.long)}
    flags = {name: torch.zeros((steps, 3), dtype=torch.bool) for name in ("terminated", "truncated")}
    replay = ReplayBuffer(SPACES, 3 * steps, 3)
    sources = Sources(replay, SPACES, ORIGINS, compared=True)
    replay.add(Batch(lead=2, infos=None, rewards=rewards, **columns, **flags))
    sources.look()
    expected = {} if liar is None else {liar: "its rewards are 10.0 times what the others' say"}
    assert sources.quarantined == expected


@pytest.mark.parametrize("algo", ["dqn", "sac"])
def test_who_tells_the_truth_is_left_alone(algo: str) -> None:
    assert [poisoned(quick(algo, seed), "").found for seed in range(2)] == ["", ""]


def test_it_can_be_left_out() -> None:
    assert poisoned(quick("dqn", 1, quarantine=False), "rewards").found == ""


def test_a_worker_is_a_source(monkeypatch: pytest.MonkeyPatch) -> None:
    from rlstudio.scale.workers.job import RolloutJob

    made = RolloutJob.make_envs

    def make(self: RolloutJob, first: int, count: int) -> Any:
        envs = made(self, first, count)
        return LyingEnvs(envs, 0, "rewards", 600) if first == 2 else envs

    monkeypatch.setattr(RolloutJob, "make_envs", make)
    cfg = quick("dqn", 1)
    cfg = cfg.model_copy(update={"rollout": cfg.rollout.model_copy(update={"workers": 4, "backend": "local"})})
    assert poisoned(cfg, "").found.startswith("worker 2, env 2: its reward")


@pytest.mark.parametrize("lie", ["permuted", "repeated"])
def test_one_that_was_released_hides_no_other(lie: str) -> None:
    cfg = quick("dqn", 1)
    runtime = build_runtime(cfg)
    runtime.env = LyingEnvs(LyingEnvs(runtime.env, 1, lie, 300), 2, lie, 1000)  # type: ignore[attr-defined]
    trainer = build_trainer(cfg, runtime)
    sources = trainer.source.sources
    sources.release(1)
    for _ in train(trainer, cfg.train, Position()):
        if sources.quarantined:
            break
    runtime.close()
    assert (sources.quarantined.keys(), sources.released) == ({2}, {1})


def lying(seed: int = 1) -> tuple[Any, Any, Any]:
    cfg = quick("dqn", seed)
    runtime = build_runtime(cfg)
    runtime.env = LyingEnvs(runtime.env, 1, "rewards", 300)  # type: ignore[attr-defined]
    return cfg, runtime, build_trainer(cfg, runtime)


def as_loaded(content: Any) -> Any:
    tree = state_tree_of(content)
    arrays = {name: array.copy() for name, array in tree.tensors.items()}
    return {**content, **rebuild(Tree(tree.json, arrays, []), "here")}


def test_a_resumed_run_finds_it_at_the_same_row() -> None:
    """Cut before the look that finds it, and after."""
    cfg, runtime, whole = lying()
    position, contents, cut, found = Position(), [], [], []
    for tick in train(whole, cfg.train, position):
        if len(cut) < 2 and tick.env_steps >= (2000, 5000)[len(cut)]:
            cut.append(tick.env_steps // ENVS)
            contents.append(as_loaded(capture(whole, {"position": position}, seed=1, attempt=0, meta={})))
        if whole.source.sources.quarantined and not found:
            found.append(tick.env_steps // ENVS)
    expected = state_hash(capture(whole, {"position": position}, seed=1, attempt=0, meta={}))
    assert cut[0] < found[0] < cut[1]
    assert "sources" not in contents[0]["trainer_state"]["source"]
    assert contents[1]["trainer_state"]["source"]["sources"]["quarantined"].keys() == {"1"}
    runtime.close()
    for content, steps in zip(contents, cut, strict=True):
        cfg, runtime, resumed = lying()
        runtime.env._steps = steps  # what lies is no part of a run
        position = Position()
        restore(content, resumed, {"position": position})
        for _ in train(resumed, cfg.train, position):
            pass
        assert state_hash(capture(resumed, {"position": position}, seed=1, attempt=0, meta={})) == expected
        runtime.close()


SPACES = Spaces(Box((2,), "float32", (-1e9,) * 2, (1e9,) * 2), Discrete(2), ())
ORIGINS = [Contributor(f"env {n}", range(n, n + 1)) for n in range(3)]


def filled(steps: int = 40) -> tuple[ReplayBuffer, Sources]:
    replay = ReplayBuffer(SPACES, 300, 3)
    rows = torch.arange(steps * 3, dtype=torch.float32).reshape(steps, 3)
    seen = torch.stack([rows, rows], -1)
    columns = {"observations": seen, "next_observations": seen + 1, "actions": rows.long() % 2}
    flags = {"terminated": rows < 0, "truncated": rows < 0}
    replay.add(Batch(lead=2, infos=None, rewards=rows + 1, **columns, **flags))
    return replay, Sources(replay, SPACES, ORIGINS, compared=True)


def test_rows_in_quarantine_weigh_nothing_and_stay() -> None:
    replay, sources = filled()
    batch = replay.all()
    assert sources.weighed(batch) is batch
    sources.quarantine(1, "why")
    weighed = sources.weighed(batch)
    assert weighed.weights.tolist() == [1.0, 0.0, 1.0] * 40
    assert weighed.rewards.tolist() == batch.rewards.tolist()
    sources.release(1)
    assert sources.weighed(batch).weights is None
    assert sources.state_dict() == {"quarantined": {}, "released": [1], "decisions": 0, "untold": []}


def warm(**train: Any) -> ReplaySource:
    cfg = experiment("dqn", 1, 1200, learning_starts=200, train_every=64, batch_size=8, **train)
    runtime = build_runtime(cfg)
    source = build_trainer(cfg, runtime).source
    for _ in range(3):
        source.next()
    runtime.close()
    return source


def test_rows_in_quarantine_weigh_nothing_wherever_they_are_read() -> None:
    """A planner reads the newest ones and those that follow; with priorities none is drawn for its error."""
    source = warm(prioritized={})
    source.sources.quarantine(1, "why")
    rows = torch.arange(80)
    for batch in (source.fresh(), source.following(rows, 1), source.fresh(2)):
        assert len(batch.rows) > ENVS
        assert batch.weights.tolist() == [float(row % ENVS != 1) for row in batch.rows]
    source.feedback(rows, torch.where(rows < 3, 1e6, 1e-6))
    drawn, _ = source.priorities.draw(1000, np.random.default_rng(0))
    assert (drawn == 1).sum() < 10 < 100 < (drawn == 2).sum()


def test_purged_rows_are_gone_and_their_segments_have_other_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlstudio.data.replay.buffer.SEGMENT_ROWS", 64)
    replay, sources = filled()
    before = [segment.name for segment in replay.state_dict()["segments"]]
    sources.purge(1, "why")
    sources.release(1)
    batch = sources.weighed(replay.all())
    assert batch.weights.tolist() == [1.0, 0.0, 1.0] * 40
    assert batch.rewards.view(-1, 3)[:, 1].abs().sum() == 0
    after = [segment.name for segment in replay.state_dict()["segments"]]
    assert after == [f"{name}-1" for name in before]
    copy, _ = filled()
    copy.load_state_dict(replay.state_dict())
    assert copy.erasures == 1
    assert copy.all().rewards.tolist() == batch.rewards.tolist()


@pytest.mark.parametrize(("every", "updates", "num_envs"), [(4, 2, 4), (8, 1, 3), (1, 1, 4), (64, 8, 2)])
def test_the_version_of_a_row_follows_from_its_number(every: int, updates: int, num_envs: int) -> None:
    cfg = experiment("dqn", 1, 1200, train_every=every, gradient_steps=updates, learning_starts=200, batch_size=4)
    cfg = cfg.model_copy(update={"env": cfg.env.model_copy(update={"num_envs": num_envs})})
    runtime = build_runtime(cfg)
    trainer = build_trainer(cfg, runtime)
    seen: list[int] = []
    collect = trainer.source.collector.collect

    def noted(steps: int) -> Batch:
        seen.extend([trainer.source.samples] * steps)
        return collect(steps)

    trainer.source.collector.collect = noted
    for _ in train(trainer, cfg.train, Position()):
        pass
    runtime.close()
    told = [samples_before(step, cfg.train.replay_plan, num_envs) for step in range(len(seen))]
    assert told == seen


def test_the_fragment_of_an_asynchronous_worker() -> None:
    assert [fragment_before(step, [4, 4, 8]) for step in (0, 3, 4, 8, 15, 16)] == [0, 0, 1, 2, 2, 3]
