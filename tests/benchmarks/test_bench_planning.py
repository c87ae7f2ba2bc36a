"""The planning benchmark: every row can be planned, an episode is counted once, and tables say what was missed."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from benchmarks.planning_rows import ROWS

from benchmarks import planning, planning_page

MADE = {
    "command": "python -m benchmarks.planning",
    "date": "2026-01-01",
    "machine": {"cores": 2, "processor": "x", "memory_gib": 8, "python": "3.11"},
    "versions": {"rlstudio": {"rlstudio": "0"}},
}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.key)
def test_every_row_can_be_planned(row):
    agent = planning.agent_of(row)
    env = gym.make_vec(row.env_id, num_envs=2, vectorization_mode="sync")
    observations, _ = env.reset(seed=0)
    acted = agent.step(observations, None, agent.noise(np.random.default_rng(0), 0, 2)[0])
    assert env.action_space.contains(acted.actions)


def test_rows_have_keys_of_their_own():
    assert len({row.key for row in ROWS}) == len(ROWS)


def test_the_first_episode_of_each_start_counts():
    row = next(row for row in ROWS if row.key == "CartPole-v1-mcts")
    agent = planning.agent_of(row)
    agent.planner = type(agent.planner)(2, 1)  # hardly looks ahead, and soon falls
    returns = planning.play(agent, "CartPole-v1", 3)
    assert len(returns) == 3
    assert all(8 <= value < 200 for value in returns)


def test_tables_say_what_was_missed():
    row = ROWS[0]
    page = planning_page._returns({**MADE, "rows": {row.key: {"planner": row.planner, "returns": [1.0, 2.0]}}})
    assert "| 1.5 | 1 to 2 | >= 500 | **no** |" in page
    times = {("rlstudio", 1): 900.0, ("rlstudio", 256): 8000.0, ("pytorch_mppi", 1): 1000.0}
    against = [
        {"side": side, "envs": envs, "threads": threads, "median_us": time * threads}
        for (side, envs), time in times.items()
        for threads in (1, 2)
    ]
    cell = {"envs": 1, "candidates": 64, "horizon": 15, "iterations": 1, "median_us": 1000.0}
    trees = [{"envs": 1, "simulations": 32, "error": "gone"}]
    page = planning_page._speed({**MADE, "against": against, "grid": [cell], "trees": trees})
    assert "| one plan, to pytorch_mppi's | 0.90 | <= 1 | yes |" in page
    assert "| 28.80 | >= 20 | yes |" in page
    assert "| 64 | 15 | 1 | 1,000 |" in page
    assert "| 32 | - |" in page
