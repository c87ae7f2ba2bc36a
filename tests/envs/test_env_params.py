"""Parameters of environments that are drawn: the same values wherever the envs run, set as if constructed with them."""

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.classic_control.cartpole import CartPoleEnv
from gymnasium.envs.classic_control.pendulum import PendulumEnv
from hypothesis import given
from hypothesis import strategies as st

from rlstudio.core.errors import ConfigError, Incompatible
from rlstudio.core.spaces import Discrete
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.gym.recipe import Recipe
from rlstudio.envs.make import make_single, make_vec_env, resolve_vectorization
from rlstudio.envs.params.distributions import Constant
from rlstudio.envs.params.draw import Component, Draw, constants
from rlstudio.envs.worlds.equations import dynamics_of
from support.examples import examples
from support.worlds import MaskedWorld

CARTPOLE = {
    "gravity": {"uniform": [5.0, 15.0]},
    "length": {"uniform": [0.25, 1.5], "observed": True},
    "mass_pole": {"log_uniform": [0.05, 0.5]},
    "mass_cart": {"uniform": [0.5, 2.0], "op": "scale", "every": "run"},
    "force": {"choice": [8.0, 10.0, 12.0]},
}
B = 3
KINDS = ("native", "sync", "async")


def cartpole(**fields):
    return EnvConfig(id="CartPole-v1", params=CARTPOLE, num_envs=B, seed=4, **fields)


def actions(steps, num_envs=B):
    return np.random.default_rng(0).integers(0, 2, (steps, num_envs))


def numbers(low, high):
    return st.floats(low, high, allow_nan=False)


# -- setting equals constructing --------------------------------------------------------------------------------------


def fixed(kind, **values):
    """A class whose constructor finds these numbers in place of its own, before it derives anything from them."""
    hidden = {name: property(lambda env, value=value: value, lambda env, own: None) for name, value in values.items()}
    return type(kind.__name__, (kind,), hidden)


@examples(15)
@given(numbers(1, 20), numbers(0.1, 3), numbers(0.01, 1), numbers(0.1, 2), numbers(2, 20), st.integers(0, 99))
def test_setting_parameters_equals_constructing_the_env_with_them(gravity, masscart, masspole, length, force, seed):
    """Bit for bit, also what CartPole derives once in its constructor; and after an episode with other values."""
    values = {"gravity": gravity, "masscart": masscart, "masspole": masspole, "length": length, "force_mag": force}
    names = {"masscart": "mass_cart", "masspole": "mass_pole", "force_mag": "force"}
    params = {names.get(name, name): {"uniform": [0.01, 30.0]} for name in values}
    env = Recipe(EnvConfig(id="CartPole-v1", params=params, vectorization="sync")).build()
    env.assign(dict.fromkeys(params, 7.0))
    env.reset(seed=1)
    env.assign({names.get(name, name): value for name, value in values.items()})
    constructed = fixed(CartPoleEnv, **values)()
    assert (constructed.total_mass, constructed.polemass_length) == (masspole + masscart, masspole * length)
    assert np.array_equal(env.reset(seed=seed)[0], constructed.reset(seed=seed)[0])
    for action in actions(30, 1)[:, 0]:
        mine, theirs = env.step(action), constructed.step(action)
        assert np.array_equal(mine[0], theirs[0])
        assert mine[1:3] == theirs[1:3]
        if theirs[2]:
            break


NATIVE = {
    "CartPole-v1": {"gravity": 5.0, "mass_cart": 2.0, "mass_pole": 0.3, "length": 0.8, "force": 6.0},
    "Pendulum-v1": {"gravity": 5.0, "mass": 0.5, "length": 1.5},
    "MountainCar-v0": {"gravity": 0.002, "force": 0.003},
    "MountainCarContinuous-v0": {"force": 0.003},
}


@pytest.mark.parametrize("id", NATIVE)
def test_a_native_world_and_gymnasiums_env_agree_on_drawn_parameters(id):
    """One config, by the names of our world, in both; each step from the same state."""
    params = {name: {"uniform": [0.8 * value, value]} for name, value in NATIVE[id].items()}
    fields = {"id": id, "params": params, "num_envs": 1, "seed": 6}
    native, env = make_vec_env(EnvConfig(**fields)), make_single(EnvConfig(**fields, vectorization="sync"))
    assert type(env.unwrapped).__module__.startswith("gymnasium.")
    assert native.vectorization == "native"
    native.reset()
    env.assign(native.episode_params.of(0))
    env.reset(seed=0)
    choices = native.spaces.action
    rng = np.random.default_rng(0)
    for _ in range(20):
        discrete = isinstance(choices, Discrete)
        action = rng.integers(0, choices.n, 1) if discrete else rng.uniform(-1, 1, (1, 1)).astype(np.float32)
        env.unwrapped.state = native.position()["states"][0]
        expected = env.step(action[0])[0]
        np.testing.assert_allclose(native.step(action).successors[0], expected, rtol=1e-5, atol=1e-6)


# -- the same wherever they run ---------------------------------------------------------------------------------------


def drawn_by_episode(kind, steps=120):
    """Observations, and what the ended episodes had, with another Draw from step 25 on and a new object after 60."""
    env, rows = make_vec_env(cartpole(vectorization=kind)), []
    rows.append(env.reset().copy())
    places = {(e, 0): env.episode_params.of(e) for e in range(B)}
    episodes, ended = np.zeros(B, int), []
    for t, row in enumerate(actions(steps)):
        if t == 25:
            easier = {**env.episode_params.draw.components[0].params, "length": Constant(0.7)}
            env.set_draw(Draw(1, (Component(1.0, easier),)))
        if t == 60:
            ended.append(env.episode_params.take())
            position = env.position()
            assert env.exact is None
            env.close()
            env = make_vec_env(cartpole(vectorization=kind))
            assert np.array_equal(env.seek(position), rows[-1])
        if kind == "async" and t == 70:
            env._handles[0].process.kill()
        step = env.step(row)
        rows.append(step.observations.copy())
        for e in np.flatnonzero(step.terminated | step.truncated):
            episodes[e] += 1
            places[e, int(episodes[e])] = env.episode_params.of(e)
    ended.append(env.episode_params.take())
    env.close()
    return np.array(rows), places, [list(column) for column in ended], env.restart_reasons


@pytest.fixture(scope="module")
def played():
    return {kind: drawn_by_episode(kind) for kind in KINDS}


def test_the_same_seed_gives_the_same_parameters_on_native_sync_and_async(played):
    """A position puts the open episodes back with theirs, and a worker that was killed is replaced with them."""
    native, sync, parallel = (played[kind] for kind in KINDS)
    assert np.array_equal(sync[0], parallel[0])
    assert sync[1:3] == parallel[1:3]
    assert len(parallel[3]) == 1
    both = sync[1].keys() & native[1].keys()
    assert len(both) > 8
    early = [place for place in both if place[1] == 0]  # drawn before the Draw changed
    assert all(sync[1][place] == native[1][place] for place in early)
    assert len({values["gravity"] for values in sync[1].values()}) == len(sync[1])
    assert {sync[1][e, 0]["mass_cart"] for e in range(B)} == {values["mass_cart"] for values in sync[1].values()}


def test_a_new_draw_counts_from_the_next_episode_of_each_env(played):
    for _, _, ended, _ in played.values():
        versions = [version for part in ended for version in part[0]]
        lengths = [length for part in ended for length in part[2]["length"]]
        assert set(versions) == {0, 1}
        assert all((length == 0.7) == (version == 1) for version, length in zip(versions, lengths, strict=True))


def test_an_uninterrupted_vector_goes_the_same_way(played):
    """What is played across a position equals what is played in one go."""
    env = make_vec_env(cartpole(), vectorization="native")
    rows = [env.reset().copy()]
    for t, row in enumerate(actions(120)):
        if t == 25:
            easier = {**env.episode_params.draw.components[0].params, "length": Constant(0.7)}
            env.set_draw(Draw(1, (Component(1.0, easier),)))
        rows.append(env.step(row).observations.copy())
    assert np.array_equal(np.array(rows), played["native"][0])


def test_observed_parameters_stand_behind_the_observation(played):
    native, sync = make_vec_env(cartpole()), make_vec_env(cartpole(vectorization="sync"))
    assert native.spaces == sync.spaces
    for kind in KINDS:
        rows, places, _, _ = played[kind]
        assert rows[0, :, -1].tolist() == [np.float32(places[e, 0]["length"]) for e in range(B)]
        assert set(rows[..., -1].ravel().tolist()) <= {float(np.float32(v["length"])) for v in places.values()}
    masked = EnvConfig(id=MaskedWorld.id, params={"penalty": {"uniform": [1.0, 2.0], "observed": True}})
    vec = make_vec_env(masked, 2)
    assert vec.reset()["params"][:, 0].tolist() == vec.episode_params.values["penalty"].astype(np.float32).tolist()
    plain = EnvConfig(**{**masked.model_dump(), "vectorization": "sync"})
    assert make_vec_env(plain, 2).spaces == vec.spaces


def test_numbers_in_the_long_form_equal_numbers():
    short = EnvConfig(id="CartPole-v1", params={"gravity": 5.0, "length": 0.8})
    long = EnvConfig(id="CartPole-v1", params={"gravity": {"value": 5.0}, "length": {"value": 0.8}})
    first, second = (make_vec_env(cfg, 4, vectorization="native") for cfg in (short, long))
    assert np.array_equal(first.reset(), second.reset())
    for row in actions(60, 4):
        assert np.array_equal(first.step(row).observations, second.step(row).observations)


# -- what a parameter can be ------------------------------------------------------------------------------------------


class Wind(gymnasium.Env):
    """Sets its parameters itself: `twice` is derived from `force`."""

    observation_space = gymnasium.spaces.Box(-9.0, 9.0, (2,))
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, size: int = 3, force: float = 1.0):
        assert type(size) is int
        self.size = size
        self.set_params(force=force)

    def set_params(self, force=1.0):
        self.force, self.twice = force, 2 * force

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.array([(options or {}).get("start", 0.0), self.size], np.float32), {}

    def step(self, action):
        return np.array([self.twice, self.size], np.float32), 0.0, True, False, {}


@pytest.fixture(autouse=True)
def _wind():
    if "toys/Wind-v0" not in gymnasium.registry:
        gymnasium.register("toys/Wind-v0", Wind)


def test_a_constructor_argument_a_reset_option_and_an_env_that_sets_them_itself():
    params = {"kwarg:size": {"choice": [4, 5]}, "reset:start": {"uniform": [1, 2]}, "force": {"uniform": [2.0, 3.0]}}
    vec = make_vec_env(EnvConfig(id="toys/Wind-v0", params=params), 2)
    observations = vec.reset()
    for _ in range(6):
        drawn = {name: values.astype(np.float32) for name, values in vec.episode_params.values.items()}
        assert np.array_equal(observations, np.stack([drawn["reset:start"], drawn["kwarg:size"]], -1))
        step = vec.step(np.zeros(2, int))
        assert np.array_equal(step.successors, np.stack([2 * drawn["force"], drawn["kwarg:size"]], -1))
        observations = step.observations
    assert len(set(vec.episode_params.take().values["kwarg:size"])) == 2


def test_a_constructor_argument_equals_constructing_with_it():
    env = Recipe(EnvConfig(id="Pendulum-v1", params={"kwarg:g": {"uniform": [1, 20]}})).build()
    env.assign({"kwarg:g": 4.5})
    theirs = PendulumEnv(g=4.5)
    assert np.array_equal(env.reset(seed=3)[0], theirs.reset(seed=3)[0])
    for _ in range(5):
        assert np.array_equal(env.step(np.ones(1, np.float32))[0], theirs.step(np.ones(1, np.float32))[0])


def test_mujoco_fields_are_set_or_scaled_with_what_mujoco_derives():
    pytest.importorskip("mujoco")
    params = {
        "pole": {"target": "mujoco:body_mass[pole]", "uniform": [0.5, 2.0], "op": "scale"},
        "mujoco:opt.gravity[2]": {"uniform": [-12, -8]},
        "mujoco:dof_damping[slider]": {"uniform": [0.5, 1.5]},
        "mujoco:geom_friction[0,2]": {"uniform": [0.0, 0.1]},
    }
    env = Recipe(EnvConfig(id="InvertedPendulum-v5", params=params)).build()
    model = env.unwrapped.model
    own, weight = float(model.body("pole").mass[0]), float(model.body("pole").invweight0[0])
    friction = model.geom_friction[0].tolist()
    other = {"mujoco:dof_damping[slider]": 0.7, "mujoco:geom_friction[0,2]": 0.05}
    env.assign({"pole": 2.0, "mujoco:opt.gravity[2]": -9.0, **other})
    env.reset(seed=0)
    assert model.body("pole").mass[0] == 2 * own
    assert model.opt.gravity[2] == -9.0
    assert model.geom_friction[0].tolist() == [*friction[:2], 0.05]
    assert model.dof_damping[model.joint("slider").dofadr[0]] == 0.7
    assert model.body("pole").invweight0[0] < 0.9 * weight
    own = {"mujoco:dof_damping[slider]": 1.0, "mujoco:geom_friction[0,2]": friction[2]}
    env.assign({"pole": 1.0, "mujoco:opt.gravity[2]": -9.81, **own})
    plain = gymnasium.make("InvertedPendulum-v5")
    assert np.array_equal(env.reset(seed=5)[0], plain.reset(seed=5)[0])
    for _ in range(5):
        assert np.array_equal(env.step(np.ones(1, np.float32))[0], plain.step(np.ones(1, np.float32))[0])


@pytest.mark.parametrize(
    ("id", "params", "message"),
    [
        ("toys/Wind-v0", {"froce": 1.0}, "set_params of toys/Wind-v0 takes no 'froce'; did you mean force? it"),
        ("toys/Wind-v0", {"kwarg:sizes": 1.0}, "takes no 'sizes'; did you mean size? it takes: size, force"),
        ("CartPole-v1", {"attr:total_mass": 1.0}, "CartPole-v1 computes total_mass from other attributes; set those"),
        ("CartPole-v1", {"attr:lenght": 1.0}, "no attribute 'lenght'; did you mean length? it has: force, force_mag"),
        ("CartPole-v1", {"attr:kinematics_integrator": 1.0}, "is a str, not a number; name one of its numbers"),
        ("CartPole-v1", {"lenght": {"uniform": [1, 2]}}, "no parameter 'lenght'; did you mean length? known: gravity,"),
        ("CartPole-v1", {"length": {"uniform": [0, 2]}}, "gives numbers that are not finite with length=0"),
        ("CartPole-v1", {"mujoco:body_mass[x]": 1.0}, "CartPole-v1 is no MuJoCo env, so it has no mujoco:body_mass[x]"),
        ("InvertedPendulum-v5", {"mujoco:body_mass[pol]": 1.0}, "no body 'pol'; did you mean pole? known: world, cart"),
        ("InvertedPendulum-v5", {"mujoco:body_mass[7]": 1.0}, "7 is not among the 3, which are counted from 0"),
        ("InvertedPendulum-v5", {"mujoco:body_mass[pole,0]": 1.0}, "body_mass has 1 places for an index, not 2"),
        ("InvertedPendulum-v5", {"mujoco:body_maß": 1.0}, "is no name of a parameter; use letters"),
        ("FrozenLake-v1", {"nrow": {"uniform": [0, 1], "observed": True}}, "FrozenLake-v1 shows Discrete(16), where"),
    ],
)  # fmt: skip
def test_what_cannot_be_set_is_refused_in_one_line(id, params, message):
    if "mujoco" in next(iter(params)):
        pytest.importorskip("mujoco")
    with pytest.raises((ConfigError, ValueError)) as caught:
        make_vec_env(EnvConfig(id=id, params=params), 1)
    assert message in str(caught.value)
    assert isinstance(caught.value, ConfigError) == ("\n" not in str(caught.value))


def test_where_drawn_parameters_run():
    assert resolve_vectorization(cartpole()) == "native"
    assert resolve_vectorization(EnvConfig(id="CartPole-v1", params={"attr:length": 1.0})) == "sync"
    with pytest.raises(ConfigError, match=r"EnvPool's worlds have no parameters \(gravity, length, .*use env.vector"):
        resolve_vectorization(cartpole(vectorization="envpool"))
    with pytest.raises(ConfigError, match="a native world has no attr:length, which is of a Gymnasium env"):
        resolve_vectorization(EnvConfig(id="CartPole-v1", params={"attr:length": 1.0}, vectorization="native"))
    with pytest.raises(Incompatible, match=r"equations of CartPole-v1 need numbers, and env\.params draws .* grav"):
        dynamics_of(cartpole())
    with pytest.raises(Incompatible, match="a Draw of gravity does not fit environments whose parameters are force,"):
        make_vec_env(cartpole()).set_draw(constants({"gravity": 1.0}))
    with pytest.raises(Incompatible, match="no parameter of CartPole-v1 is drawn"):
        make_vec_env(EnvConfig(id="CartPole-v1")).set_draw(constants({"gravity": 1.0}))


def test_evaluation_has_the_envs_own_values_and_what_it_is_given():
    cfg = EnvConfig(id="CartPole-v1", params={**CARTPOLE, "gravity": 9.0, "mass_pole": {"value": 0.2}})
    assert cfg.evaluated({}).params == {
        "gravity": 9.0,
        "length": {"nominal": True, "observed": True},
        "mass_pole": {"value": 0.2},
    }
    given = cfg.evaluated({"length": 1.0, "mass_cart": 2.0, "force": {"uniform": [1.0, 2.0]}}).params
    assert given["length"] == {"value": 1.0, "observed": True}
    assert given["mass_cart"] == {"value": 2.0, "op": "scale"}
    assert given["force"] == {"uniform": [1.0, 2.0]}
    plain = EnvConfig(id="CartPole-v1", params={"length": {"uniform": [0.2, 1.0]}})
    assert plain.evaluated({}).params == {}
    assert plain.evaluated({"length": 2.0}).params == {"length": 2.0}
    nominal = make_vec_env(cfg.evaluated({}), 2, vectorization="sync")
    assert nominal.reset()[:, -1].tolist() == [0.5, 0.5]
    assert nominal.spaces == make_vec_env(cfg, 2).spaces
