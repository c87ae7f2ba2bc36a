"""The table of curricula: both sides train on the same task, seeds count once, and policies are judged on the task."""

import numpy as np
from benchmarks.curriculum import CASES, GRID, config, current, on_grid, on_levels, rows
from benchmarks.learning import stated

from rlstudio.core.contracts import Acted

BY_KEY = {case.key: case for case in CASES}
REPLAY, UNIFORM = "GridLevels, hard levels solved: level replay", "GridLevels, hard levels solved: uniform"


class Still:
    """Always the same action."""

    def __init__(self, action):
        self.action = action

    def step(self, observations, carry=None, noise=None):
        return Acted(np.full(len(observations), self.action), {}, None)


def line(key, seed, score, now=None):
    identity = now or stated(config(BY_KEY[key]))
    return {"case": key, "seed": seed, "identity": identity, "score": score, "env_steps": 1000}


def test_the_sides_of_a_task_differ_in_the_curriculum_alone():
    for task in {case.task for case in CASES}:
        sides = [config(case) for case in CASES if case.task == task]
        assert sum(cfg.curriculum is not None for cfg in sides) == 1
        assert len({(str(cfg.train), str(cfg.policy), cfg.env.id, cfg.env.num_envs) for cfg in sides}) == 1


def test_uniform_has_all_that_automatic_randomisation_may_reach():
    with_adr, uniform = (
        config(BY_KEY[f"CartPole grid, return: {side}"]) for side in ("automatic randomisation", "uniform")
    )
    limits = {name: list(given.limits) for name, given in with_adr.curriculum.adr.parameters.items()}
    assert {name: entry["uniform"] for name, entry in uniform.env.params.items()} == limits
    assert all(low <= min(GRID[name]) <= max(GRID[name]) <= high for name, (low, high) in limits.items())


def test_levels_are_judged_one_by_one():
    """Walking right solves the trivial levels, whose goal lies in the first row, and no other."""
    assert on_levels(config(BY_KEY[REPLAY]), Still(3)) == {"score": 0.0, "all": 1008 / 1024}


def test_the_worst_cell_of_the_grid_is_no_better_than_the_mean():
    measured = on_grid(config(BY_KEY["CartPole grid, return: none"]), Still(1))
    assert 4 < measured["worst"] < measured["score"] < 20


def test_a_seed_counts_once_and_another_config_does_not():
    stored = [line(REPLAY, 0, 0.6), line(REPLAY, 0, 0.7), line(REPLAY, 1, 0.9, now="other"), line(UNIFORM, 1, 0.3)]
    assert {seed: entry["score"] for seed, entry in current(BY_KEY[REPLAY], stored).items()} == {0: 0.7}
    assert [row[1:5] for row in rows(stored)] == [
        ["level replay", "1,000", "0.7", "0.7"],
        ["uniform", "1,000", "0.3", "0.3"],
    ]
