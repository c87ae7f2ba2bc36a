import sys

import gymnasium
import numpy as np
import pytest

from rlstudio.core.errors import ConfigError, EnvFault, Incompatible, UnknownName, UserError
from rlstudio.core.spaces import Box, Dict, Discrete, MultiDiscrete
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.gym.process_env import ProcessVecEnv
from rlstudio.envs.gym.recipe import Recipe
from rlstudio.envs.gym.spaces import convert_spaces
from rlstudio.envs.make import known_envs, make_single, make_vec_env, resolve_vectorization


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"id": "CartPole-v1"}, "native"),
        ({"id": "CartPole-v1", "kwargs": {"sutton_barto_reward": True}}, "sync"),
        ({"id": "CartPole-v1", "max_episode_steps": 50}, "sync"),
        ({"id": "CartPole-v1", "wrappers": ["FlattenObservation"]}, "sync"),
        ({"id": "CartPole-v1", "max_episode_steps": 50, "vectorization": "native"}, "native"),
        ({"id": "CartPole-v1", "vectorization": "async"}, "async"),
        ({"id": "Acrobot-v1"}, "native"),
        ({"id": "Blackjack-v1"}, "sync"),
        ({"id": "rlstudio/Chain-v0", "kwargs": {"n": 9}, "max_episode_steps": 5}, "native"),
        ({"id": "rlstudio/Chain-v0", "wrappers": ["FlattenObservation"]}, "sync"),
    ],
)
def test_what_auto_becomes(fields, kind):
    assert resolve_vectorization(EnvConfig(**fields)) == kind


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"id": "Cartpole-v1"}, UnknownName, "env.id: unknown 'Cartpole-v1'; did you mean CartPole-v1?"),
        ({"id": "rlstudio/Chian-v0"}, UnknownName, "did you mean rlstudio/Chain-v0"),
        ({"id": "Zzzzzz"}, UnknownName, "rlctl envs"),
        ({"id": "CartPole-v1", "kwargs": {"x": 1}}, ConfigError, "env.kwargs.*unexpected keyword argument 'x'"),
        ({"id": "CartPole-v1", "kwargs": {"x": 1}, "vectorization": "native"}, ConfigError, "env.kwargs"),
        ({"id": "CartPole-v1", "kwargs": {"x": 1}, "vectorization": "async"}, ConfigError, "env.kwargs"),
        ({"id": "rlstudio/Chain-v0", "kwargs": {"m": 1}}, ConfigError, "env.kwargs"),
        ({"id": "rlstudio/Chain-v0", "kwargs": {"n": 1}}, ConfigError, "n must be at least 2"),
        ({"id": "Blackjack-v1", "vectorization": "native"}, ConfigError, "no native world"),
        ({"id": "CartPole-v1", "vectorization": "native", "wrappers": ["ClipAction"]}, ConfigError, "no env.wrappers"),
        ({"id": "CartPole-v1", "wrappers": ["GrayscaleObservation"]}, ConfigError, "env.wrappers: Grayscale"),
        ({"id": "CartPole-v1", "wrappers": [{"FrameStackObservation": {"n": 4}}]}, ConfigError, "env.wrappers: Frame"),
        ({"id": "Blackjack-v1"}, Incompatible, "Blackjack-v1: observation is a Tuple"),
    ],
)
def test_refusals_are_one_line(fields, error, message):
    with pytest.raises(error, match=message) as caught:
        make_vec_env(EnvConfig(**fields), 1)
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, UserError)


@pytest.mark.parametrize("n", [10**12, 10**30])
def test_observations_that_cannot_fit_are_refused_before_the_first_is_made(n):
    cfg = EnvConfig(id="rlstudio/Chain-v0", kwargs={"n": n}, num_envs=2)
    with pytest.raises(ConfigError, match=rf"^env\.kwargs: an observation of .* has {4 * n:,} bytes; 2 copies need"):
        make_vec_env(cfg)


def test_a_package_that_is_missing_comes_with_its_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", None)  # what a missing package looks like to `import`
    with pytest.raises(UserError, match=r"not installed: the environment says .*jax") as caught:
        make_vec_env(EnvConfig(id="phys2d/CartPole-v1"), 1)
    assert "\n" not in str(caught.value)


def test_an_env_that_cannot_be_made_is_a_fault():
    gymnasium.register("toys/Unmakeable-v0", lambda: 1 / 0)
    try:
        with pytest.raises(EnvFault, match=r"toys/Unmakeable-v0 cannot be created: ZeroDivisionError"):
            make_vec_env(EnvConfig(id="toys/Unmakeable-v0"))
        with pytest.raises(UserError, match="a worker cannot import"):
            make_vec_env(EnvConfig(id="toys/Unmakeable-v0", vectorization="async"))
    finally:
        del gymnasium.registry["toys/Unmakeable-v0"]


def test_a_class_as_entry_point_reaches_the_workers():
    from support.env_toys import Choices

    gymnasium.register("toys/ByClass-v0", Choices)
    try:
        vec = ProcessVecEnv(Recipe(EnvConfig(id="toys/ByClass-v0")), 1, 0, workers=1)
        assert vec.reset().shape == (1, 2)
        vec.close()
    finally:
        del gymnasium.registry["toys/ByClass-v0"]


def test_known_envs_lists_ours_and_gymnasiums():
    found = {info.id: info for info in known_envs()}
    assert found["CartPole-v1"].native
    assert found["CartPole-v1"].origin == "gymnasium.classic_control"
    assert found["Acrobot-v1"].native
    assert not found["Blackjack-v1"].native
    assert found["rlstudio/GridWorld-v0"].origin == "rlstudio"
    assert list(found) == sorted(found)


def test_wrappers_kwargs_and_limits_take_effect():
    cfg = EnvConfig(
        id="CartPole-v1",
        kwargs={"sutton_barto_reward": True},
        wrappers=[{"FrameStackObservation": {"stack_size": 3}}, "FlattenObservation"],
        max_episode_steps=4,
    )
    vec = make_vec_env(cfg, 2)
    assert vec.spaces.observation.shape == (12,)
    vec.reset()
    steps = [vec.step(np.array([0, 1])) for _ in range(4)]
    assert steps[-1].truncated.tolist() == [True, True]
    assert steps[-1].rewards.tolist() == [0, 0]


def test_max_episode_steps_on_every_kind_of_vector():
    for kind in ("native", "sync"):
        vec = make_vec_env(EnvConfig(id="Pendulum-v1", max_episode_steps=7, vectorization=kind), 2)
        vec.reset()
        flags = [vec.step(np.zeros((2, 1), np.float32)).truncated[0].item() for _ in range(15)]
        assert [i for i, flag in enumerate(flags, 1) if flag] == [7, 14]


def test_float64_is_delivered_as_float32_and_choices_count_from_zero():
    views = make_vec_env(EnvConfig(id="toys/Views-v0"), 2)
    assert {name: leaf.dtype for name, leaf in views.spaces.observation.items()} == {
        "image": "uint8",
        "place": "float32",
        "room": "int64",
    }
    offset = make_vec_env(EnvConfig(id="toys/Offset-v0"), 2)
    assert offset.spaces.action == Discrete(4, start=7)
    assert offset.spaces.observation == Discrete(4)
    assert offset.reset().tolist() == [0, 0]
    step = offset.step(np.array([0, 3]))
    assert step.rewards.tolist() == [7, 10]
    assert step.observations.tolist() == [0, 3]


def test_the_last_observation_of_an_episode_goes_to_the_successors():
    vec = make_vec_env(EnvConfig(id="toys/Views-v0", infos=["norm"]), 3)
    vec.reset()
    ends = 0
    for _ in range(40):
        step = vec.step(np.full((3, 2), 0.25, np.float32))
        marks = step.successors["image"][:, 0, 0, 0]
        first = step.observations["image"][:, 0, 0, 0]
        for index in range(3):
            assert (marks[index] == 255) == step.truncated[index]
            assert (first[index] == 0) == step.truncated[index]
            if step.truncated[index]:
                at = np.linalg.norm(step.successors["place"][index])
                assert step.infos["norm"][index] == pytest.approx(at, rel=1e-6)
                ends += 1
    assert ends > 5


def test_an_action_changed_in_place_reaches_nobody():
    vec = make_vec_env(EnvConfig(id="toys/Views-v0"), 2)
    vec.reset()
    actions = np.full((2, 2), 0.5, np.float32)
    vec.step(actions)
    assert (actions == 0.5).all()
    assert (vec.position()["actions"] == 0.5).all()


def test_conversion_and_its_refusals():
    from gymnasium import spaces

    def convert(observation, action=None):
        env = gymnasium.Env()
        env.observation_space, env.action_space = observation, action or spaces.Discrete(2)
        return convert_spaces(env, "X-v0")

    assert convert(spaces.Box(0, 255, (4, 4, 3), np.uint8)).observation == Box((4, 4, 3), "uint8", (0.0,), (255.0,))
    assert convert(spaces.Box(-1, 1, (2,), np.float64)).observation == Box((2,), "float32", (-1.0,), (1.0,))
    assert convert(spaces.Box(0, 9, (2,), np.int32)).observation.dtype == "float32"
    assert convert(spaces.MultiBinary(3)).observation == MultiDiscrete((2, 2, 2))
    assert convert(spaces.Discrete(3), spaces.MultiBinary(2)).action == MultiDiscrete((2, 2))
    one = spaces.Dict({"b": spaces.Discrete(2), "a": spaces.Box(0, 1, (1,))})
    assert [name for name, _ in convert(one).observation.items()] == ["a", "b"]
    assert isinstance(convert(one).observation, Dict)
    for observation, action, message in [
        (spaces.Dict({"x": one}), None, r"'x' is a Dict inside a Dict"),
        (spaces.Text(3), None, "Text"),
        (spaces.MultiDiscrete([[2, 2]]), None, "MultiDiscrete"),
        (spaces.Dict({"x": spaces.Discrete(3, start=1)}), None, "counts from 1"),
        (spaces.Discrete(2), one, "action is"),
        (spaces.Discrete(2), spaces.Box(0, 9, (1,), np.int64), "Box of floats"),
    ]:
        with pytest.raises(Incompatible, match=message):
            convert(observation, action)


@pytest.mark.parametrize("id", ["rlstudio/GridWorld-v0", "rlstudio/Chain-v0", "CartPole-v1"])
def test_one_env_to_film(id):
    env = make_single(EnvConfig(id=id), render_mode="rgb_array")
    env.reset(seed=1)
    picture = env.render()
    assert picture.dtype == np.uint8
    assert picture.ndim == 3
    assert picture.shape[2] == 3
    before = picture.copy()
    env.step(1)
    env.step(1)
    assert not np.array_equal(env.render(), before)
    env.close()


def test_our_worlds_do_not_open_windows():
    with pytest.raises(UserError, match="rgb_array only"):
        make_single(EnvConfig(id="rlstudio/Chain-v0"), render_mode="human")


def test_our_worlds_run_as_plain_envs_with_their_limit():
    env = make_single(EnvConfig(id="rlstudio/Chain-v0", max_episode_steps=3))
    env.reset(seed=0)
    assert [env.step(0)[3] for _ in range(3)] == [False, False, True]


def test_an_env_without_pictures_says_so_in_one_line():
    with pytest.raises(UserError, match=r"toys/Views-v0 has render_modes none; to be filmed it needs rgb_array"):
        make_single(EnvConfig(id="toys/Views-v0"), render_mode="rgb_array")
