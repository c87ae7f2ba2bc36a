"""Parameters of worlds: set for all environments, or one number for each of them."""

import gymnasium
import numpy as np
import pytest
import torch

from rlstudio.core.config import canonical, config_hash
from rlstudio.core.errors import ConfigError, Incompatible
from rlstudio.core.spaces import Discrete
from rlstudio.envs.check import check_env
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.make import make_single, make_vec_env, resolve_vectorization
from rlstudio.envs.worlds.catalog import make_world
from rlstudio.envs.worlds.equations import analytic_dynamics
from rlstudio.envs.worlds.native import NativeVecEnv
from rlstudio.experiment.judging.evaluate import Evaluator
from support.experiments import tiny
from support.tensor_env import TensorEnv

CHANGED = {
    "CartPole-v1": {"gravity": 5.0, "mass_cart": 2.0, "mass_pole": 0.3, "length": 0.8, "force": 6.0},
    "rlstudio/CartPoleNoVel-v1": {"length": 0.8, "force": 6.0},
    "Pendulum-v1": {"gravity": 5.0, "mass": 0.5, "length": 1.5},
    "Acrobot-v1": {"gravity": 5.0, "torque": 2.0},
    "MountainCar-v0": {"gravity": 0.002, "force": 0.003},
    "MountainCarContinuous-v0": {"gravity": 0.002, "force": 0.003},
}
B = 4


def actions_for(spaces, steps, num_envs=B):
    rng = np.random.default_rng(0)
    if isinstance(spaces.action, Discrete):
        return rng.integers(0, spaces.action.n, (steps, num_envs))
    return rng.uniform(*spaces.action.bounds(), (steps, num_envs, *spaces.action.shape)).astype(np.float32)


def varied(id):
    """A number per environment for each parameter: env 0 has the world's own, the last one those of CHANGED."""
    own = make_world(id, {}).params
    return {name: np.linspace(own[name], value, B) for name, value in CHANGED[id].items()}


@pytest.mark.parametrize("id", CHANGED)
def test_one_number_per_env_makes_each_env_the_world_with_that_number(id):
    """Bit for bit where actions are choices; a float32 action times a float is float32, times an array float64."""
    slack = 0.0 if isinstance(make_world(id, {}).spaces.action, Discrete) else 1e-5
    per_env = varied(id)
    world = make_world(id, {})
    together = NativeVecEnv(world, B, 7, limit=30, params=per_env)
    actions = actions_for(world.spaces, 80)
    alone = [
        NativeVecEnv(world, B, 7, limit=30, params={name: float(v[env]) for name, v in per_env.items()})
        for env in range(B)
    ]
    firsts = [env.reset() for env in alone]
    assert all(np.array_equal(together.reset()[env], firsts[env][env]) for env in range(B))
    for row in actions:
        step, steps = together.step(row), [env.step(row) for env in alone]
        for env in range(B):
            for mine, theirs in zip(step[:5], steps[env][:5], strict=True):
                np.testing.assert_allclose(mine[env], theirs[env], rtol=slack, atol=slack)
    assert together.position()["episodes"].min() > 0
    assert not np.array_equal(together.position()["states"][0], together.position()["states"][-1])


@pytest.mark.parametrize("id", CHANGED)
def test_tensors_follow_numpy_with_a_number_per_env(id):
    per_env, world = varied(id), make_world(id, {})
    native = NativeVecEnv(world, B, 3, limit=25, params=per_env)
    tensors = {name: torch.from_numpy(value) for name, value in per_env.items()}
    tensor = TensorEnv(world, B, 3, 25, torch.float64, tensors)
    np.testing.assert_allclose(tensor.reset(), native.reset(), rtol=1e-6)
    for actions in actions_for(world.spaces, 60):
        ours, theirs = tensor.step(torch.as_tensor(actions)), native.step(actions)
        for left, right in zip(ours[:3], theirs[:3], strict=True):
            np.testing.assert_allclose(left, right, rtol=1e-4, atol=1e-5)
        assert np.array_equal(ours.terminated, theirs.terminated)


@pytest.mark.parametrize("id", sorted(CHANGED.keys() - {"rlstudio/CartPoleNoVel-v1"}))
def test_planners_have_the_equations_of_each_env(id):
    """Dims: E environments, K candidates. Every env's row is what its own equations say, step by step and in one go."""
    per_env, envs, candidates = varied(id), B, 3
    world = make_world(id, {})
    together = analytic_dynamics(id, {name: torch.from_numpy(value) for name, value in per_env.items()})
    observations = torch.from_numpy(NativeVecEnv(world, envs, 1, params=per_env).reset().copy())
    states = together.start(observations, candidates)
    actions = torch.as_tensor(actions_for(world.spaces, envs, candidates))
    outcome = together.step(states, actions)
    for env in range(envs):
        alone = analytic_dynamics(id, {name: float(value[env]) for name, value in per_env.items()})
        mine = alone.step(alone.start(observations[env : env + 1], candidates), actions[env : env + 1])
        for left, right in zip(outcome, mine, strict=True):
            torch.testing.assert_close(left[:, env], right[:, 0], rtol=1e-6, atol=1e-6)
    shorter = observations[:2]
    with pytest.raises(Incompatible, match="is given for 4 environments, not for 2"):
        together.start(shorter, candidates)


def test_a_whole_sequence_of_the_pendulum_has_its_parameters():
    model = analytic_dynamics("Pendulum-v1", CHANGED["Pendulum-v1"])
    states = model.start(torch.tensor([[1.0, 0.0, 0.5], [0.0, 1.0, -2.0]], dtype=torch.float64), 5)
    actions = torch.rand((2, 5, 7, 1), generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 2 - 1
    quick = model.rollout(states, actions)
    for t in range(7):
        outcome = model.step(states, actions[:, :, t])
        torch.testing.assert_close(quick.rewards[t], outcome.rewards)
        states = outcome.states
    torch.testing.assert_close(quick.states, states)


def test_parameters_are_those_of_gymnasiums_physics():
    """Pendulum's g, and CartPole's constants with what Gymnasium derives from them."""
    pendulum = gymnasium.make("Pendulum-v1", g=5.0).unwrapped
    pendulum.m, pendulum.l = 0.5, 1.5
    cart = gymnasium.make("CartPole-v1").unwrapped
    cart.gravity, cart.masscart, cart.masspole, cart.length, cart.force_mag = 5.0, 2.0, 0.3, 0.8, 6.0
    cart.total_mass, cart.polemass_length = cart.masscart + cart.masspole, cart.masspole * cart.length
    for env, id in ((pendulum, "Pendulum-v1"), (cart, "CartPole-v1")):
        vec = make_vec_env(EnvConfig(id=id, params=CHANGED[id]), 1)
        vec.reset()
        env.reset(seed=0)
        for actions in actions_for(vec.spaces, 20, 1):
            env.state = vec.position()["states"][0]
            expected = env.step(actions[0])[0]
            np.testing.assert_allclose(vec.step(actions).successors[0], expected, rtol=1e-5, atol=1e-6)


def test_own_values_change_no_bit():
    for id in CHANGED:
        own = dict(make_world(id, {}).params)
        plain, given = make_vec_env(EnvConfig(id=id), B), make_vec_env(EnvConfig(id=id, params=own), B)
        assert np.array_equal(plain.reset(), given.reset())
        for actions in actions_for(plain.spaces, 40):
            assert np.array_equal(plain.step(actions).observations, given.step(actions).observations)


def test_where_a_world_with_parameters_runs():
    cfg = EnvConfig(id="CartPole-v1", params={"gravity": 9.0})
    assert resolve_vectorization(cfg) == "native"
    assert resolve_vectorization(EnvConfig(id="CartPole-v1", params={"gravity": 9.0}, max_episode_steps=9)) == "native"
    wrapped = EnvConfig(id="CartPole-v1", params={"gravity": 9.0}, wrappers=["TimeAwareObservation"])
    assert resolve_vectorization(wrapped) == "sync"
    assert Evaluator(cfg, episodes=2, seed=0).vectorization == "native"  # Gymnasium's has another gravity
    assert Evaluator(EnvConfig(id="CartPole-v1"), episodes=2, seed=0).vectorization == "sync"
    assert check_env(cfg).ok


@pytest.mark.parametrize("vectorization", ["sync", "async"])
def test_one_env_at_a_time_has_the_parameters_too(vectorization):
    cfg = EnvConfig(id="Pendulum-v1", params={"gravity": 0.0}, num_envs=1)
    env = make_vec_env(cfg, vectorization=vectorization)
    before = env.reset().copy()
    after = env.step(np.zeros((1, 1), np.float32)).observations
    assert after[0, 2] == pytest.approx(before[0, 2])  # nothing pulls
    env.close()
    assert make_single(cfg).reset(seed=0)[0].shape == (3,)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"id": "CartPole-v1", "params": {"gravty": 9.0}}, r"'gravty'; did you mean gravity\? known: gravity, mass_"),
        ({"id": "Pendulum-v1", "params": {"x": 1.0}}, "has no parameter 'x'; known: gravity, mass, length$"),
        ({"id": "rlstudio/Chain-v0", "params": {"x": 1.0}}, "has no parameter 'x'; it has none, leave env.params out$"),
        ({"id": "CartPole-v1", "params": {"length": 0.0}}, "not finite with length=0; choose others"),
        ({"id": "FrozenLake-v1", "params": {"gravity": 1.0}}, "has no attribute 'gravity'; it has: .*kwarg:NAME"),
        ({"id": "CartPole-v1", "params": {"gravity": 1.0}, "vectorization": "envpool"}, r"EnvPool's .*\(gravity\)"),
    ],
)  # fmt: skip
def test_what_cannot_be_set_is_refused_in_one_line(fields, message):
    with pytest.raises(ConfigError, match=message) as caught:
        make_vec_env(EnvConfig(**fields))
    assert "\n" not in str(caught.value)


def test_an_array_needs_a_number_for_each_env():
    with pytest.raises(ConfigError, match=r"length of CartPole-v1 has the shape \(3,\).* each of the 4 environments"):
        NativeVecEnv(make_world("CartPole-v1", {}), 4, 0, params={"length": np.ones(3)})
    with pytest.raises(ConfigError, match="no parameter 'lenght'; did you mean length"):
        NativeVecEnv(make_world("CartPole-v1", {}), 4, 0, params={"lenght": np.ones(4)})


def test_parameters_define_the_result_and_their_absence_does_not():
    plain, other = tiny("ppo"), tiny("ppo", env={"params": {"gravity": 9.0}})
    assert config_hash(plain) != config_hash(other)
    assert '"params"' not in canonical(plain)
    assert plain.env.task != other.env.task
