"""What was drawn for each episode reaches the report beside its return, in the same order, also across a checkpoint."""

import numpy as np
import pytest

from rlstudio.core.contracts import Acted
from rlstudio.core.rng import Rng
from rlstudio.data.collect.collector import Collector
from rlstudio.data.collect.episodes import DrawLog
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.make import make_vec_env
from rlstudio.envs.params.draw import Component, Draw
from support.worlds import LENGTH, ThreeAgents


class Still:
    """Always takes the first choice."""

    acting, remembers = "none", False

    def noise(self, generator, steps, num_envs):
        return np.empty((steps, num_envs, 0), np.float32)

    def step(self, observations, carry=None, noise=None):
        rows = next(iter(observations.values())) if isinstance(observations, dict) else observations
        return Acted(np.zeros(len(rows), np.int64), {}, carry)


def collector(id, params, vectorization="auto", **fields):
    cfg = EnvConfig(id=id, params=params, num_envs=3, seed=2, **fields)
    return Collector(make_vec_env(cfg, vectorization=vectorization), Still(), Rng(0))


def test_of_several_agents_each_episode_has_its_own_row():
    """Agent 2 is out after `death` steps, the others act in every second of LENGTH steps."""
    mine = collector(ThreeAgents.id, {"death": {"choice": [2, 3, 5]}})
    for steps in (7, 20, 33):
        mine.collect(steps)
    tally = mine.take()
    deaths = tally.draws.values["death"]
    assert len(tally.returns) == len(deaths) == len(tally.draws.components) > 30
    of_agent_2 = [(length, death) for length, death in zip(tally.lengths, deaths, strict=True) if length != LENGTH / 2]
    assert {length for length, _ in of_agent_2} == {2, 3, 5}
    assert all(length == death for length, death in of_agent_2)
    assert mine.take().draws.values == {"death": []}


def test_an_agent_that_never_acted_has_no_row():
    mine = collector(ThreeAgents.id, {"death": {"choice": [2, 3, 5]}}, max_episode_steps=1)
    mine.collect(4)
    tally = mine.take()
    assert len(tally.returns) == len(tally.draws.versions) == 2 * 3 * 4  # agent 1 would have been next


@pytest.mark.parametrize("vectorization", ["native", "sync"])
def test_a_collector_goes_on_with_the_same_parameters(vectorization):
    params = {"length": {"uniform": [0.3, 1.5]}, "force": {"normal": [10, 1], "low": 8}}
    whole, cut = (collector("CartPole-v1", params, vectorization) for _ in range(2))
    for each in (whole, cut):
        each.collect(20)
        components = each.env.episode_params.draw.components
        each.env.set_draw(Draw(4, (components[0], Component(2.0, components[0].params, "again"))))
        each.collect(17)
    resumed = collector("CartPole-v1", params, vectorization)
    resumed.load_state_dict(cut.state_dict())
    rows = [each.collect(40).observations.numpy() for each in (whole, resumed)]
    assert np.array_equal(*rows)
    first, second = whole.take(), resumed.take()
    assert first == second
    assert set(first.draws.versions) == {0, 4}
    assert set(first.draws.components) == {0, 1}
    assert len(first.draws.values["force"]) == len(first.returns) > 8


def test_an_older_checkpoint_has_rows_that_say_nothing():
    log = DrawLog(["length"])
    log.load_state_dict(None, episodes=2)
    taken = log.take()
    assert taken.versions == taken.components == [-1, -1]
    assert np.isnan(taken.values["length"]).all()
