"""Our particle worlds are MPE2's: from the same places the same actions give the same numbers, step by step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from rlstudio.core.contracts import NamedAgents
from rlstudio.core.errors import ConfigError
from rlstudio.core.spaces import Spaces
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.make import known_envs, make_vec_env, resolve_vectorization, single_spaces
from rlstudio.envs.worlds.catalog import make_world
from rlstudio.envs.worlds.kernel import NUMPY

SPREAD, SPEAKER, TAG = "mpe2/simple_spread_v3", "mpe2/simple_speaker_listener_v4", "mpe2/simple_tag_v3"


def pairs(entities: list[Any]) -> list[float]:
    return [number for entity in entities for number in entity.state.p_pos]


def speeds(entities: list[Any]) -> list[float]:
    return [number for entity in entities for number in entity.state.p_vel]


def of_all(world: Any) -> list[float]:
    return [*pairs(world.agents), *speeds(world.agents), *pairs(world.landmarks)]


def of_listener(world: Any) -> list[float]:
    speaker, listener = world.agents
    meant = world.landmarks.index(speaker.goal_b)
    return [*listener.state.p_pos, *listener.state.p_vel, *pairs(world.landmarks), meant, *speaker.state.c]


CASES: dict[str, Callable[[Any], list[float]]] = {SPREAD: of_all, SPEAKER: of_listener, TAG: of_all}


@pytest.mark.parametrize("id", CASES)
@pytest.mark.parametrize("crowded", [False, True], ids=["apart", "crowded"])
def test_the_same_actions_give_the_same_numbers(id: str, crowded: bool):
    """Crowded, all begin in a small square, where discs overlap and push each other."""
    module = __import__(f"mpe2.{id.removeprefix('mpe2/')}", fromlist=["parallel_env"])
    ours, rng = make_world(id, {}), np.random.default_rng(7)
    compared = 0
    for seed in range(3):
        theirs = module.parallel_env()
        theirs.reset(seed=seed)
        particles = theirs.unwrapped.world
        if crowded:
            for entity in particles.entities:
                entity.state.p_pos = entity.state.p_pos * 0.2
        states = np.array(CASES[id](particles))[None]
        while theirs.agents:
            views = ours.observe(states, {}, NUMPY)
            for place, agent in enumerate(theirs.agents):
                seen = theirs.unwrapped.observe(agent)
                np.testing.assert_allclose(views[0, place, : len(seen)], seen, rtol=1e-6, atol=1e-7)
                assert not views[0, place, len(seen) :].any()
            actions = [int(rng.integers(theirs.action_space(agent).n)) for agent in theirs.agents]
            _, rewards, terminated, truncated, _ = theirs.step(dict(zip(theirs.agents, actions, strict=True)))
            step = ours.dynamics(states, np.array(actions)[None], {}, NUMPY)
            np.testing.assert_allclose(step.rewards[0], [*rewards.values()], rtol=1e-9, atol=1e-9)
            assert not step.terminated.any()
            assert not any(terminated.values())
            states = step.states
            np.testing.assert_allclose(states[0], CASES[id](particles), rtol=1e-9, atol=1e-9)
            compared += 1
        assert all(truncated.values())
    assert compared == 3 * ours.limit


@pytest.mark.parametrize("id", CASES)
def test_episodes_begin_as_theirs_do(id: str):
    """The same ranges, and every landmark is meant."""
    ours = make_world(id, {})
    noise = np.random.default_rng(0).random((2_000, ours.noise_size))
    begun = ours.initial(noise, {}, NUMPY)
    module = __import__(f"mpe2.{id.removeprefix('mpe2/')}", fromlist=["parallel_env"])
    theirs = module.parallel_env()
    states = []
    for seed in range(400):
        theirs.reset(seed=seed)
        states.append(CASES[id](theirs.unwrapped.world))
    np.testing.assert_allclose(begun.mean(0), np.mean(states, 0), atol=0.1)
    np.testing.assert_allclose(begun.min(0), np.min(states, 0), atol=0.05)
    np.testing.assert_allclose(begun.max(0), np.max(states, 0), atol=0.05)


@pytest.mark.parametrize("settings", [{}, {"agent_id": True}, {"state": True}, {"agent_id": True, "state": True}])
@pytest.mark.parametrize("id", CASES)
def test_what_agents_are_shown_is_the_same_natively(id: str, settings: dict[str, bool]):
    cfg = EnvConfig(id=id, **settings)
    native, theirs = (make_vec_env(cfg, 2, 0, vectorization=kind) for kind in ("native", "sync"))
    assert isinstance(native, NamedAgents)
    assert isinstance(theirs, NamedAgents)
    assert native.spaces == theirs.spaces == single_spaces(cfg)
    assert (native.agent_names, native.agent_spaces) == (theirs.agent_names, theirs.agent_spaces)
    for env in (native, theirs):
        rows = env.reset()
        if settings.get("state"):
            assert isinstance(rows, dict)
            own = [dict(each.observation.items())["observation"].shape[0] for each in native.agent_spaces]
            first = [rows["observation"][column, :size] for column, size in enumerate(own)]
            np.testing.assert_array_equal(rows["state"][: env.agents], [np.concatenate(first)] * env.agents)
        if settings.get("agent_id"):
            numbers = rows["agent_id"] if isinstance(rows, dict) else numbers_of(rows, native.agent_spaces)
            np.testing.assert_array_equal(numbers[: env.agents], np.eye(env.agents))
        env.close()


def numbers_of(rows: np.ndarray, spaces: Sequence[Spaces]) -> np.ndarray:
    """What follows the own numbers of each agent, which are as many as its space has beyond the number of agents."""
    ends = [each.observation.shape[0] for each in spaces]
    assert not any(rows[column, end:].any() for column, end in enumerate(ends))
    return np.stack([rows[column, end - len(spaces) : end] for column, end in enumerate(ends)])


def test_training_is_native_and_evaluation_theirs():
    assert resolve_vectorization(EnvConfig(id=SPREAD)) == "native"
    for beyond in ({"kwargs": {"max_cycles": 50}}, {"max_episode_steps": 10}, {"infos": ["x"]}):
        assert resolve_vectorization(EnvConfig(id=SPREAD, **beyond)) == "sync"
        with pytest.raises(ConfigError, match=f"takes no env.{next(iter(beyond))}; use auto or sync"):
            resolve_vectorization(EnvConfig(id=SPREAD, vectorization="native", **beyond))
    with pytest.raises(ConfigError, match="is PettingZoo's, which native has not"):
        resolve_vectorization(EnvConfig(id="mpe2/simple_push_v3", vectorization="native"))
    native = {info.id for info in known_envs() if info.native and info.origin == "mpe2"}
    assert native == set(CASES)
