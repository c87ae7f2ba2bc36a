"""PettingZoo environments as columns: equal to a loop over the raw environment, and continued bit for bit."""

import numpy as np
import pytest

from rlstudio.core.contracts import Acted, NamedAgents
from rlstudio.core.rng import Rng
from rlstudio.data.collect.collector import Collector
from rlstudio.data.collect.turns import decisions
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.make import make_vec_env
from rlstudio.envs.seeds import EpisodeNoise
from rlstudio.testing.vec_envs import copied, equal

SPREAD, TICTACTOE = "mpe2/simple_spread_v3", "pettingzoo/classic/tictactoe-v3"
ZOMBIES = "pettingzoo/butterfly/knights_archers_zombies-v11"
TOYS = "support.pettingzoo_toys"
SEED = 7


def made(id, num_envs=2, **fields):
    import support.pettingzoo_toys  # noqa: F401 - its classes are named by their module

    return make_vec_env(EnvConfig(id=id, **fields), num_envs, SEED)


class Chance:
    """Acts at random, as the masks allow."""

    acting, remembers = "none", False

    def __init__(self, choices, seed=0):
        self.choices, self.random = choices, np.random.default_rng(seed)

    def noise(self, generator, steps, num_envs):
        return np.empty((steps, num_envs, 0), np.float32)

    def step(self, observations, carry=None, noise=None):
        return Acted(self.chosen(observations), {}, carry)

    def chosen(self, observations):
        parts = observations if isinstance(observations, dict) else {"observation": observations}
        weights = self.random.random((len(parts["observation"]), self.choices))
        mask = parts.get("action_mask", np.ones(1))
        return np.where(mask.any(-1, keepdims=True), weights * (mask != 0), weights).argmax(-1)


def played(env, observations, agent, steps):
    """Steps, copied out of the arrays that are used again; with the actions that led to them."""
    for _ in range(steps):
        actions = agent.chosen(observations)
        step = env.step(actions)
        observations = step.observations
        parts = (step.rewards, step.terminated, step.truncated)
        yield (
            actions,
            type(step)(
                copied(observations),
                copied(step.successors),
                *(part.copy() for part in parts),
                {key: values.copy() for key, values in step.infos.items()},
                step.active.copy(),
            ),
        )


def of_column(rows, column):
    return {name: array[column] for name, array in rows.items()} if isinstance(rows, dict) else rows[column]


# -- agents that act at once ------------------------------------------------------------------------------------------


def check_against_parallel(env, raws, steps):
    """Each environment is what PettingZoo's own loop gives: agent by agent, episode by episode."""
    noise, agents = EpisodeNoise(SEED, len(raws), 1), env.agents
    observations = env.reset()
    names, deaths, episodes = env.agent_names, 0, [0] * len(raws)
    for index, raw in enumerate(raws):
        first, _ = raw.reset(seed=noise.seed(index, 0))
        for agent, shown in first.items():
            assert np.array_equal(observations[index * agents + names.index(agent)], np.float32(shown))
    for actions, step in played(env, observations, Chance(env.spaces.action.n), steps):
        for index, raw in enumerate(raws):
            acting, column = list(raw.agents), {name: index * agents + a for a, name in enumerate(names)}
            result = raw.step({agent: actions[column[agent]] for agent in acting})
            shown, rewards, terminated, truncated, _ = result
            is_over = not raw.agents
            if is_over:
                episodes[index] += 1
                first, _ = raw.reset(seed=noise.seed(index, episodes[index]))
            for name in names:
                row = column[name]
                assert step.active[row] == (name in acting)
                if name not in acting:
                    assert (step.rewards[row], step.terminated[row], step.truncated[row]) == (0, False, False)
                    assert is_over or name in raw.agents or not step.observations[row].any()
                    continue
                assert step.rewards[row] == np.float32(rewards[name])
                assert (step.terminated[row], step.truncated[row]) == (terminated[name], truncated[name])
                assert np.array_equal(step.successors[row], np.float32(shown[name]))
                deaths += terminated[name]
                if not (terminated[name] or truncated[name]):
                    assert np.array_equal(step.observations[row], np.float32(shown[name]))
                elif is_over:
                    assert np.array_equal(step.observations[row], np.float32(first[name]))
                else:
                    assert not step.observations[row].any()
    assert all(episodes), "no episode ended: the test saw nothing"
    return deaths


def test_simple_spread_equals_a_loop_over_the_raw_environment():
    from mpe2.simple_spread_v3 import parallel_env

    check_against_parallel(made(SPREAD, vectorization="sync"), [parallel_env() for _ in range(2)], 60)


def test_agents_that_die_in_knights_archers_zombies_equal_the_raw_environment():
    import pettingzoo

    kwargs = {"spawn_delay": 1, "max_zombies": 40, "max_cycles": 140, "line_death": True}
    raws = [pettingzoo.make("parallel", ZOMBIES.removeprefix("pettingzoo/"), **kwargs)]
    assert check_against_parallel(made(ZOMBIES, 1, kwargs=kwargs), raws, 150) >= 2


def test_agents_leave_and_join():
    """`early_0` acts in steps 1 to 3, `late_0` from 3 on, `whole_0` always; then the next episode begins."""
    env = made(f"{TOYS}:Shift", 1, infos=["steps"])
    observations = env.reset()
    assert observations[:, 0].tolist() == [1, 0, 3]  # who is not there yet sees zeros
    assert isinstance(env, NamedAgents)
    assert env.agent_names == ("early_0", "late_0", "whole_0")
    steps = list(played(env, observations, Chance(4), 8))
    present = [[t < 3, t >= 2, True] for t in range(6)]
    assert [step.active.tolist() for _, step in steps] == [*present, *present[:2]]
    for t, (actions, step) in enumerate(steps[:6]):
        assert np.array_equal(step.rewards, (actions + 1) * step.active)  # choices count from 1 in the environment
        assert step.terminated.tolist() == [t == 2, False, False]
        assert step.truncated.tolist() == [False, t == 5, t == 5]
        assert np.array_equal(step.infos["steps"], np.where(step.active, t + 1.0, np.nan), equal_nan=True)
        if t < 5:
            assert step.observations[:, 0].tolist() == [t < 2, 2 * (t >= 1), 3]
    _, last = steps[5]
    assert last.successors[1:, 1].tolist() == [6, 6]
    assert last.observations[:, 1].tolist() == [0, 0, 0]


def test_a_time_limit_ends_the_episode_of_those_who_are_in():
    env = made(f"{TOYS}:Shift", 1, max_episode_steps=4)
    *_, (_, last) = played(env, env.reset(), Chance(4), 4)
    assert last.truncated.tolist() == [False, True, True]
    assert last.successors[:, 1].tolist()[1:] == [4, 4]
    assert last.observations[:, 0].tolist() == [1, 0, 3]


# -- agents that take turns -------------------------------------------------------------------------------------------


def rewards_by_action(raw, choose, games):
    """What PettingZoo's own loop pays for each action, agent by agent: `last()` at the agent's next turn or end."""
    paid = {agent: [] for agent in raw.possible_agents}
    for seed in games:
        raw.reset(seed=seed)
        acted = set()
        for agent in raw.agent_iter():
            observation, reward, terminated, truncated, _ = raw.last()
            if agent in acted:
                paid[agent].append(reward)
            is_done = terminated or truncated
            raw.step(None if is_done else choose(agent, observation))
            acted.add(agent)
    return paid


def first_allowed(agent, observation):
    return int(np.argmax(observation["action_mask"]))


def test_every_action_of_tic_tac_toe_is_paid_what_last_says_and_the_loser_gets_minus_one():
    import pettingzoo

    env = made(TICTACTOE, 1)
    observations, rows = env.reset(), []
    for _ in range(14):  # the first square that is free: the first player wins with its fourth mark
        step = env.step(observations["action_mask"].argmax(-1))
        rows.append((step.rewards.copy(), step.terminated.copy(), step.active.copy()))
        observations = step.observations
    paid = rewards_by_action(pettingzoo.make("aec", "classic/tictactoe-v3"), first_allowed, range(2))
    assert paid == {"player_1": [0, 0, 0, 1] * 2, "player_2": [0, 0, -1] * 2}
    by_column = [[], []]
    for rewards, _, active in rows:
        for column in range(2):
            if active[column]:
                by_column[column].append(0.0)
            if by_column[column]:
                by_column[column][-1] += rewards[column]
    assert by_column == list(paid.values())
    assert [flags.tolist() for _, flags, _ in rows] == [[t % 7 == 6] * 2 for t in range(14)]


class Lowest(Chance):
    def chosen(self, observations):
        return observations["action_mask"].argmax(-1)


def test_the_collector_credits_the_loss_to_the_losers_last_own_action():
    rows = decisions(Collector(made(TICTACTOE, 1), Lowest(9), Rng(0)).collect(14))
    assert rows.rewards[rows.active[:, 1], 1].tolist() == [0, 0, -1] * 2
    assert rows.terminated[rows.active[:, 1], 1].tolist() == [False, False, True] * 2
    assert rows.rewards[rows.active[:, 0], 0].tolist() == [0, 0, 0, 1] * 2


def test_what_is_paid_to_one_who_is_done_before_it_hears_of_it_is_not_lost():
    """`x_1` is out with the fifth bid, paid by the seventh, and hears of it when its turn would come."""
    from support.pettingzoo_toys import Auction

    env = made(f"{TOYS}:Auction", 1)
    rows = decisions(Collector(env, Chance(2), Rng(0)).collect(8))
    paid = rewards_by_action(Auction(), lambda agent, observation: 0, [0])
    columns = range(3)
    assert [rows.rewards[rows.active[:, a], a].tolist() for a in columns] == list(paid.values())
    assert paid["x_1"][-1] == 5.0
    assert [rows.dones[rows.active[:, a], a].tolist()[-1] for a in columns] == [True] * 3
    assert rows.terminated[:, 1].any()
    assert rows.truncated[:, [0, 2]].any(0).tolist() == [True, True]


@pytest.mark.parametrize(("id", "fields"), [(f"{TOYS}:raw_env", {}), (f"{TOYS}:Told", {"action_mask": "info"})])
def test_a_forbidden_choice_is_never_needed(id, fields):
    """Both environments raise where one is taken; masks of Classic games stand in the observation, others in info."""
    env = made(id, 4, **fields)
    observations = env.reset()
    ends = sum(step.terminated.sum() for _, step in played(env, observations, Chance(env.spaces.action.n), 60))
    assert ends > 8


# -- positions --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [0, 13])
@pytest.mark.parametrize(
    ("id", "fields"),
    [
        (SPREAD, {"agent_id": True, "state": True}),
        (TICTACTOE, {}),
        (f"{TOYS}:Shift", {}),
        (f"{TOYS}:Auction", {"max_episode_steps": 7}),
    ],
)
def test_a_position_is_continued_bit_for_bit(id, fields, steps):
    env, other = made(id, **fields), made(id, **fields)
    choices = env.spaces.action.n
    now = copied(env.reset())
    for _, step in played(env, now, Chance(choices), steps):
        now = step.observations
    position = env.position()
    assert env.exact is None
    assert equal(other.seek(position), now)
    assert other.exact is None
    assert not other.restarted
    pairs = zip(
        played(env, now, Chance(choices, 1), 20), played(other, copied(now), Chance(choices, 1), 20), strict=True
    )
    for (_, left), (_, right) in pairs:
        assert all(equal(a, b) for a, b in zip((*left[:5], left.active), (*right[:5], right.active), strict=True))


def test_an_environment_that_does_not_repeat_itself_is_noticed():
    env = made(f"{TOYS}:Shift", kwargs={"fault": "repeat"})
    for _ in played(env, env.reset(), Chance(4), 4):
        pass
    position = env.position()
    assert "gave something else when its first steps were replayed" in env.exact
    other = made(f"{TOYS}:Shift", kwargs={"fault": "repeat"})
    other.seek(position)
    assert "showed other observations" in other.exact


def test_an_environment_that_remembers_is_made_anew_for_every_episode():
    env = made(f"{TOYS}:Shift", 1, kwargs={"fault": "used"})
    shown = [step.observations[2, 2] for _, step in played(env, env.reset(), Chance(4), 12)]
    assert max(shown) < 2  # the first episode of an object adds 1, a second one would add 2


@pytest.mark.real_process
def test_workers_give_the_same_bits_as_one_process():
    for id, fields in ((f"{TOYS}:Shift", {"infos": ("steps",)}), (f"{TOYS}:raw_env", {"agent_id": True})):
        here, there = made(id, 3, **fields), made(id, 3, vectorization="async", **fields)
        assert (there.agents, there.agent_names, there.agent_spaces) == (
            here.agents,
            here.agent_names,
            here.agent_spaces,
        )
        agents = [Chance(here.spaces.action.n) for _ in range(2)]
        pairs = zip(played(here, here.reset(), agents[0], 20), played(there, there.reset(), agents[1], 20), strict=True)
        for (_, left), (_, right) in pairs:
            assert all(equal(a, b) for a, b in zip((*left[:5], left.active), (*right[:5], right.active), strict=True))
        assert all(np.array_equal(here.position()[key], there.position()[key]) for key in here.position())
        again = made(id, 3, **fields)
        assert equal(there.seek(here.position()), again.seek(there.position()))
        there.close()
