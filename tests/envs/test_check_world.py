"""A World of one's own, by its class: native, resumed exactly, planned in; and what its check finds out."""

import numpy as np
import pytest

from rlstudio.core.catalog import WORLDS
from rlstudio.core.contracts import Transition
from rlstudio.core.errors import ConfigError, EnvFault, Incompatible, RLStudioError, UnknownName, UserError
from rlstudio.core.spaces import Box, Discrete, Spaces
from rlstudio.envs.check import check_env
from rlstudio.envs.check_world import violations
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.gym.recipe import Recipe
from rlstudio.envs.make import make_vec_env, resolve_vectorization
from rlstudio.envs.python_envs import given_env
from rlstudio.envs.templates.my_world import MyWorld
from rlstudio.envs.worlds.equations import analytic_dynamics
from rlstudio.testing.vec_envs import equal, played, random_actions, same_steps
from support.worlds import Slider, TwoTurns

SLIDER = "support.worlds:Slider"


def test_a_class_is_a_world_without_being_registered():
    cfg = EnvConfig(id=SLIDER, params={"mass": 2.0})
    assert resolve_vectorization(cfg) == "native"
    assert analytic_dynamics(SLIDER).params == Slider.params
    assert Recipe(cfg).to_json()["world"] == SLIDER  # for worker processes
    vec, other = (make_vec_env(cfg, 3, 1) for _ in range(2))
    vec.reset()
    actions = random_actions(vec, 60)
    now = played(vec, actions[:45])[-1].observations
    assert equal(other.seek(vec.position()), now)
    assert same_steps(played(vec, actions[45:]), played(other, actions[45:]))


def test_a_class_from_python():
    assert resolve_vectorization(EnvConfig(id=given_env(MyWorld))) == "native"

    class Hidden(MyWorld):
        pass

    with pytest.raises(UserError, match="define it at the top of a module"):
        given_env(Hidden)


@pytest.mark.parametrize(
    ("id", "error", "message"),
    [
        ("support.worlds:Slidr", UnknownName, "did you mean Slider"),
        ("support.worlds:CHOICES", ConfigError, "is no class of gymnasium.Env, and no World"),
        (
            "support.worlds:one_hot",
            ConfigError,
            "a function that makes one of PettingZoo parallel_env, env, raw",
        ),
        ("nowhere_at_all:Boat", UserError, "--import nowhere_at_all"),
    ],
)
def test_a_name_that_is_no_world(id, error, message):
    assert id not in WORLDS
    with pytest.raises(error, match=message):
        make_vec_env(EnvConfig(id=id), 1)


class Flat(MyWorld):
    def initial(self, noise, p, xp):
        return noise * 4.0 - 2.0


class Floats(MyWorld):
    def dynamics(self, states, actions, p, xp):
        step = super().dynamics(states, actions, p, xp)
        return step._replace(terminated=step.terminated * 1.0)


class Restless(MyWorld):
    def dynamics(self, states, actions, p, xp):
        step = super().dynamics(states, actions, p, xp)
        return step._replace(rewards=step.rewards + np.random.default_rng().random())


class Overwriting(MyWorld):
    def dynamics(self, states, actions, p, xp):
        states[..., 0] = states[..., 0] * 0.5
        return super().dynamics(states, actions, p, xp)


class Mixed(MyWorld):
    def dynamics(self, states, actions, p, xp):
        step = super().dynamics(states, actions, p, xp)
        return step._replace(rewards=step.rewards - abs(states).mean())


class NumpyOnly(MyWorld):
    def dynamics(self, states, actions, p, xp):
        step = super().dynamics(states, actions, p, xp)
        return step._replace(rewards=np.maximum.reduce([step.rewards, step.rewards]))


class NotTorch(MyWorld):
    def observe(self, states, p, xp):
        return xp.nan_to_num(states).astype("float64")


class Running(MyWorld):
    spaces = Spaces(Box((2,), "float32", (-np.inf,), (np.inf,)), MyWorld.spaces.action)

    def dynamics(self, states, actions, p, xp):
        return Transition(states * 20.0, states[..., 0], states[..., 0] > xp.inf)


class Shouting(MyWorld):
    def observe(self, states, p, xp):
        return states * 10.0


class Fixed(MyWorld):
    def dynamics(self, states, actions, p, xp):
        return super().dynamics(states, actions, {name: float(value) for name, value in p.items()}, xp)


class Forgetful(MyWorld):
    def recall(self, observations, p, xp):
        return observations * 0.0


class Whole(MyWorld):
    params = {"wind": 1, "drag": 0.5}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    ("world", "text"),
    [
        (Flat, "`initial` gives states of shape (2, 3, 1) instead of (2, 3, 2)"),
        (Floats, "gives terminated as float64, not bool"),
        (Restless, "other rewards for the same states and actions; chance belongs into the state"),
        (Overwriting, "change the states that they are given"),
        (Mixed, "a row must not depend on others"),
        (NumpyOnly, "`dynamics` makes rewards of NumPy out of tensors; use xp"),
        (Running, "that are not finite; bound them (xp.clip)"),
        (Shouting, "`observe` shows observations outside of its space"),
        (Fixed, "parameters per row: raised TypeError"),
        (NotTorch, "it does not compute in torch (AttributeError"),
        (Forgetful, "`recall` does not give back the state behind observations"),
    ],
)
def test_what_breaks_the_contract_is_said(world, text):
    found = list(violations(world()))
    assert any(text in line for line in found), found
    report = check_env(EnvConfig(id=f"{__name__}:{world.__name__}"))
    assert any(text in finding.text for finding in report.findings if finding.severity == "error")


def test_good_worlds_pass():
    for id in (SLIDER, "rlstudio/Chain-v0"):
        assert check_env(EnvConfig(id=id)).ok
    several = check_env(EnvConfig(id="support.worlds:ThreeAgents"))
    assert several.ok
    assert "3 agents" in several.findings[0].text


class Stretched(MyWorld):
    """NumPy would stretch both of them until they fit."""

    def dynamics(self, states, actions, p, xp):
        return super().dynamics(states, actions, p, xp)._replace(rewards=1.0)


class Narrow(MyWorld):
    def observe(self, states, p, xp):
        return states[..., :1]


class Failing(MyWorld):
    def dynamics(self, states, actions, p, xp):
        raise RuntimeError("the engine\nis off")


class Unmade(MyWorld):
    def __init__(self):
        raise RuntimeError("no licence")


class Plain(MyWorld):
    def dynamics(self, states, actions, p, xp):
        return tuple(super().dynamics(states, actions, p, xp))


class Bare(MyWorld):
    spaces = None


class Worded(MyWorld):
    params = {"wind": "strong"}


class Pair(TwoTurns):
    def __init__(self, **declared):
        super().__init__()
        vars(self).update(declared)


class OneName(Pair):
    agent_names = ("left",)


class EqualNames(Pair):
    agent_names = ("left", "left")


class OneSpace(Pair):
    agent_spaces = (TwoTurns.spaces,)


class Larger(Pair):
    agent_spaces = (TwoTurns.spaces, Spaces(TwoTurns.spaces.observation, Discrete(99)))


class ListedPlayers(Pair):
    players = ["mine"]


class OtherRandom(Pair):
    players = {"random": Slider}


class ActiveOfEnvs(Pair):
    def dynamics(self, states, actions, p, xp):
        step = super().dynamics(states, actions, p, xp)
        return step._replace(active=step.terminated[..., 0])


@pytest.mark.parametrize(
    ("world", "reason"),
    [
        (Flat, "`initial` gives states of shape (3, 1) instead of (3, 2)"),
        (Stretched, "`dynamics` gives rewards of shape () instead of (3,)"),
        (Narrow, "`observe` gives observations of shape (3, 1) instead of (3, 2)"),
        (Floats, "gives terminated as float64, not bool"),
        (Failing, "a function of it raised RuntimeError: the engine is off at tests/envs/test_check_world.py:"),
        (Unmade, "cannot be made: RuntimeError: no licence at tests/envs/test_check_world.py:"),
        (Plain, "`dynamics` gives a tuple, not a Transition"),
        (Bare, "`spaces` is no rlstudio.core.spaces.Spaces"),
        (Worded, "`params` 'wind' is 'strong', not a number"),
        (OneName, "`agent_names` is ('left',), not 2 different names"),
        (EqualNames, "`agent_names` is ('left', 'left'), not 2 different names"),
        (OneSpace, "`agent_spaces` is not 2 times Spaces(observation, action)"),
        (Larger, "`spaces` has no room for agent 1, whose action is Discrete(99)"),
        (ListedPlayers, "`players` is no dict from names to functions"),
        (OtherRandom, "`players` has a 'random', which is the name of another opponent"),
        (ActiveOfEnvs, "`dynamics` gives active of shape (4,) instead of (4, 2)"),
    ],
)
def test_a_world_that_breaks_its_word_is_refused_before_a_run_begins(world, reason):
    id = f"{__name__}:{world.__name__}"
    with pytest.raises(RLStudioError) as refused:
        make_vec_env(EnvConfig(id=id), 2)
    assert str(refused.value).startswith(f"env.id: {id}")
    assert reason in str(refused.value)
    assert "\n" not in str(refused.value)
    assert "env.id" not in "".join(finding.text for finding in check_env(EnvConfig(id=id)).findings) or world is Unmade


def test_a_world_from_python_is_not_sent_to_a_command():
    with pytest.raises(Incompatible, match=r"instead of \(3,\) for states of shape \(3, 'S'\)$"):
        make_vec_env(EnvConfig(id=given_env(Stretched)), 2)


class LateFailing(MyWorld):
    def dynamics(self, states, actions, p, xp):
        if (abs(states[..., 1]) > 0.3).any():
            raise RuntimeError("too fast")
        return super().dynamics(states, actions, p, xp)


def test_a_world_that_fails_later_says_where():
    env = make_vec_env(EnvConfig(id=f"{__name__}:LateFailing"), 2)
    env.reset()
    with pytest.raises(EnvFault, match=r"raised RuntimeError: too fast at tests/envs/test_check_world.py:\d+"):
        played(env, np.ones((50, 2, 1), np.float32))


def test_a_whole_number_is_a_parameter_and_what_is_drawn_for_it_is_none():
    class_id = f"{__name__}:Whole"
    assert not [text for text in violations(Whole()) if "params" in text]
    env = make_vec_env(EnvConfig(id=class_id, params={"wind": {"uniform": [0.2, 0.4]}}), 4)
    env.reset()
    assert ((env._drawn.p["wind"] > 0.2) & (env._drawn.p["wind"] < 0.4)).all()
