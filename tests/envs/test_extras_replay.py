"""The worlds of the extras are found again bit for bit: an episode left in the middle goes on in a fresh object."""

import numpy as np
import pytest

from rlstudio.envs.config import EnvConfig
from rlstudio.envs.gym.probe import random_actions
from rlstudio.envs.make import make_vec_env

ATARI = ["AtariPreprocessing", {"FrameStackObservation": {"stack_size": 4}}]
GRID = {"FilterObservation": {"filter_keys": ["image", "direction"]}}
CASES = {
    "LunarLander-v3": (400, {}),
    "LunarLanderContinuous-v3": (150, {}),
    "BipedalWalker-v3": (200, {}),
    "CarRacing-v3": (8, {}),
    "HalfCheetah-v5": (150, {"max_episode_steps": 100}),
    "Hopper-v5": (150, {}),
    "Ant-v5": (100, {}),
    "MiniGrid-FourRooms-v0": (250, {"wrappers": ["ImgObsWrapper"]}),
    "MiniGrid-Dynamic-Obstacles-5x5-v0": (100, {"wrappers": [GRID]}),
    "BabyAI-GoToObj-v0": (150, {"wrappers": ["ImgObsWrapper"]}),
    "ALE/Pong-v5": (20, {"kwargs": {"max_num_frames_per_episode": 60}}),  # with sticky actions; each reset takes 0.2 s
    "ALE/Pong-v5 steady": (40, {"kwargs": {"frameskip": 1, "repeat_action_probability": 0.0}, "wrappers": ATARI}),
}
REPEATED = {"LunarLanderContinuous-v3", "CarRacing-v3", "Ant-v5", "BabyAI-GoToObj-v0", "ALE/Pong-v5 steady"}
"""The same engines once more: in the slow suite."""
ONE_EPISODE = {"LunarLanderContinuous-v3", "CarRacing-v3", "ALE/Pong-v5 steady"}  # is all there is time for
B = 2


def made(name, fields, kind="sync"):
    return make_vec_env(EnvConfig(id=name.split()[0], **fields), B, 5, vectorization=kind)


def actions_of(env, steps):
    lanes = [random_actions(env.spaces, seed, steps) for seed in range(B)]
    return [np.array(actions) for actions in zip(*lanes, strict=True)]


def leaves(rows):
    return list(rows.values()) if isinstance(rows, dict) else [rows]


def taken(env, actions):
    """Everything that these steps showed, as bytes."""
    return [
        [part.tobytes() for rows in (step.observations, step.successors, *step[2:5]) for part in leaves(rows)]
        for step in map(env.step, actions)
    ]


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in REPEATED)) for name in CASES])
def test_a_position_goes_on_bit_for_bit(name):
    steps, fields = CASES[name]
    first, second = made(name, fields), made(name, fields)
    first.reset()
    actions = actions_of(first, steps + 20)
    taken(first, actions[:steps])
    position = first.position()
    assert first.exact is None  # its first steps were played again
    assert position["episodes"].any() or name in ONE_EPISODE
    observations = [part.copy() for part in leaves(first.seek(position))]
    assert all(np.array_equal(*pair) for pair in zip(observations, leaves(second.seek(position)), strict=True))
    assert (first.exact, second.exact) == (None, None)
    assert taken(first, actions[steps:]) == taken(second, actions[steps:])
    first.close()
    second.close()


def test_the_walker_whose_used_object_differs_from_a_fresh_one_is_rebuilt_for_every_episode():
    env = made("BipedalWalker-v3", {})
    assert env._block._rebuild
    env.close()


@pytest.mark.parametrize(
    "name",
    ["LunarLander-v3", "Hopper-v5", "MiniGrid-FourRooms-v0", pytest.param("ALE/Pong-v5", marks=pytest.mark.slow)],
)
def test_workers_give_the_same_bits_as_one_process(name):
    steps, fields = CASES[name]
    here, there = made(name, fields), made(name, fields, "async")
    assert all(np.array_equal(*pair) for pair in zip(leaves(here.reset()), leaves(there.reset()), strict=True))
    actions = actions_of(here, steps)
    assert taken(here, actions) == taken(there, actions)
    here.close()
    there.close()
