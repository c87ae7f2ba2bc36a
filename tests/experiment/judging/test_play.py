"""The loop outside training: what was acted on, what is remembered, which episode each environment is in."""

from itertools import islice
from typing import Any

import numpy as np
import pytest

from rlstudio.core.contracts import Acted, Step
from rlstudio.core.errors import Incompatible
from rlstudio.core.spaces import Box, Discrete, Spaces
from rlstudio.experiment.judging.play import play

LENGTHS = (2, 3)  # of every episode of the two environments


class Counters:
    """Shows (episode, step of it) in arrays that the next step overwrites, as our environments do."""

    num_envs = 2

    def __init__(self) -> None:
        self.rows = {"count": np.zeros((2, 2)), "again": np.zeros((2, 2))}
        self.rewards, self.never = np.zeros(2), np.zeros(2, bool)
        self.taken: list[list[int]] = []

    def step(self, actions: np.ndarray) -> Step:
        self.taken.append(actions.tolist())
        for rows in self.rows.values():
            rows[:, 1] += 1
        ended = self.rows["count"][:, 1] == LENGTHS
        successors = {name: rows.copy() for name, rows in self.rows.items()}
        for rows in self.rows.values():
            rows[ended, 0] += 1
            rows[ended, 1] = 0
        return Step(self.rows, successors, self.rewards, ended, self.never, {})


class Remembering:
    """Its carry counts the steps since the episode began; it acts by that number."""

    def step(self, observations: Any, carry: Any = None, noise: Any = None) -> Acted:
        count = np.zeros(2, np.int64) if carry is None else carry["count"]
        return Acted(count.copy(), {}, {"count": count + 1})


def test_each_step_holds_what_was_acted_on_and_where_the_episodes_are() -> None:
    env = Counters()
    steps = list(islice(play(Remembering(), env, env.rows), 7))
    numbers = np.arange(7)
    expected = np.stack([[numbers // length, numbers % length] for length in LENGTHS]).transpose(2, 0, 1)
    for name in ("count", "again"):  # kept until now: the environments' own arrays have moved on
        np.testing.assert_array_equal(np.stack([played.observations[name] for played in steps]), expected)
    assert env.taken == expected[:, :, 1].tolist()  # the memory of an ended episode is empty, of the other not


def test_numbers_and_ends_of_episodes() -> None:
    env = Counters()
    rows = [
        (played.ended.tolist(), played.rounds.tolist(), played.lengths.tolist())
        for played in islice(play(Remembering(), env, env.rows), 6)
    ]
    assert rows == [
        ([], [0, 0], [1, 1]),
        ([0], [0, 0], [2, 2]),
        ([1], [1, 0], [1, 3]),
        ([0], [1, 1], [2, 1]),
        ([], [2, 1], [1, 2]),
        ([0, 1], [2, 1], [2, 3]),
    ]


def test_varied_actions_are_taken_and_the_agents_kept() -> None:
    env, shown = Counters(), []

    def vary(observations: Any, actions: np.ndarray) -> np.ndarray:
        shown.append(observations["count"].tolist())
        return actions + 10

    steps = list(islice(play(Remembering(), env, env.rows, vary), 3))
    assert env.taken == [[10, 10], [11, 11], [10, 12]]
    assert [played.acted.actions.tolist() for played in steps] == [[0, 0], [1, 1], [0, 2]]
    assert [played.actions.tolist() for played in steps] == env.taken
    assert shown == [played.observations["count"].tolist() for played in steps]


@pytest.mark.parametrize("steps", [1, 2])
def test_nothing_is_done_ahead_of_who_reads(steps: int) -> None:
    env = Counters()
    for _ in islice(play(Remembering(), env, env.rows), steps):
        pass
    assert len(env.taken) == steps


def test_an_environment_of_another_shape_is_refused() -> None:
    """As the config of a bundle from elsewhere may name."""
    agent, env = Remembering(), Counters()
    agent.spaces = Spaces(Box((4,), "float32", (-1.0,), (1.0,)), Discrete(2))  # type: ignore[attr-defined]
    with pytest.raises(Incompatible, match=r"observations of shape \(2,\), the policy was made for \(4,\)"):
        next(play(agent, env, env.rows["count"]))
    assert env.taken == []
