"""PettingZoo environments by name: which there are, what fits them, what is refused in one line."""

import re
import sys

import numpy as np
import pytest

import support.pettingzoo_toys
from rlstudio.core.errors import ConfigError, EnvFault, Incompatible, UnknownName, UserError
from rlstudio.core.spaces import Box, Dict, Discrete
from rlstudio.envs.check import check_env
from rlstudio.envs.check_play import Amount
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.make import known_envs, make_vec_env
from rlstudio.envs.pettingzoo.agent_spaces import TeamSpaces, teams
from rlstudio.envs.pettingzoo.recipe import PettingZooRecipe

SPREAD, TICTACTOE = "mpe2/simple_spread_v3", "pettingzoo/classic/tictactoe-v3"
TOYS = "support.pettingzoo_toys"
PIP = 'run `pip install "pettingzoo[butterfly,classic]>=1.27,<2" "mpe2>=1.1.1,<2"`'


def made(id, num_envs=1, **fields):
    return make_vec_env(EnvConfig(id=id, **fields), num_envs, 7)


def test_the_list_has_those_that_are_installed():
    found = {info.id: info for info in known_envs() if info.extra == "marl"}
    assert (found[TICTACTOE].origin, found[SPREAD].origin) == ("pettingzoo.classic", "mpe2")
    assert len([id for id in found if id.startswith("mpe2/")]) == 12
    assert all(info.installed for info in found.values())
    assert not any("atari" in id for id in found)  # they need an emulator that is no part of the extra


@pytest.mark.parametrize(
    ("id", "near"),
    [
        ("pettingzoo/classic/tictactoe-v2", TICTACTOE),
        ("pettingzoo/classic/tictactoe_v3", TICTACTOE),
        ("tictactoe_v3", TICTACTOE),
        ("simple_spread_v3", SPREAD),
        ("mpe2/simple_spred_v3", SPREAD),
    ],
)
def test_a_name_that_is_almost_one_is_suggested(id, near):
    with pytest.raises(UnknownName, match=f"did you mean {near}"):
        made(id)


@pytest.mark.parametrize(("id", "module"), [(TICTACTOE, "pettingzoo"), (SPREAD, "mpe2")])
def test_a_missing_package_comes_with_its_command(id, module, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)  # what a missing package looks like to `import`
    with pytest.raises(UserError) as caught:
        made(id)
    assert str(caught.value) == f"env.id: {id} needs {module}; {PIP}"


@pytest.mark.parametrize(
    ("id", "fields", "reason"),
    [
        (TICTACTOE, {"vectorization": "native"}, r"env\.vectorization: .* is PettingZoo's, which native has not"),
        (SPREAD, {"params": {"g": 1.0}}, r"env\.params: .* has no parameters; use env\.kwargs"),
        (SPREAD, {"wrappers": ["FlattenObservation"]}, r"env\.wrappers: .* these wrap Gymnasium's; wrap it in a func"),
        (SPREAD, {"action_mask": "method"}, r"env\.action_mask: .* in the observation \(none\) or in the info"),
        (SPREAD, {"action_mask": "info"}, r"env\.action_mask: .* has no 'action_mask' in its info; set it to none"),
        (TICTACTOE, {"action_mask": "info"}, r"env\.action_mask: .* shows its mask in the observation already"),
        (TICTACTOE, {"state": True}, r"env\.state: .* has no state_space"),
        (SPREAD, {"kwargs": {"N": -1, "M": 2}}, r"env\.kwargs: mpe2/simple_spread_v3 refuses .*'M'"),
        ("CartPole-v1", {"agent_id": True}, r"env\.agent_id: CartPole-v1 is not PettingZoo's"),
        (f"{TOYS}:make_env", {}, r"env\.id: .* makes a NotMany, which is neither a ParallelEnv nor an AECEnv"),
        (f"{TOYS}:Shit", {}, r"has no class 'Shit'"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_in_one_line(id, fields, reason):
    with pytest.raises((ConfigError, UserError), match=reason) as caught:
        made(id, **fields).reset()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("vanish", "agent early_0: left `agents` without being terminated or truncated; episode 0"),
        ("stay", "agent early_0: is terminated or truncated, but stays in `agents`; take it out"),
        ("nobody", "agent ghost is not among possible_agents"),
        ("shape", r"agent whole_0: observation has shape \(2,\), its space says \(3,\)"),
        ("unseen", r"agent whole_0: step\(\) gave no observation for it"),
        ("text", "agent whole_0: reward is the text '1.0', not a number"),
    ],
)
def test_what_an_environment_does_wrong_is_named_with_the_agent(fault, reason):
    env = made(f"{TOYS}:Shift", kwargs={"fault": fault})
    env.reset()
    with pytest.raises(EnvFault, match=reason):
        list(map(env.step, np.zeros((4, 3), np.int64)))
    report = check_env(EnvConfig(id=f"{TOYS}:Shift", kwargs={"fault": fault}), Amount.of_steps(6))
    assert not report.ok
    assert reason[:12] in report.findings[0].text


class Blind(support.pettingzoo_toys.Shift):
    def reset(self, seed=None, options=None):
        super().reset(seed)
        return {}, {}


class Stateful(support.pettingzoo_toys.Shift):
    def state(self):
        return np.zeros(5, np.float32)


class Nobody(support.pettingzoo_toys.Auction):
    def step(self, action):
        super().step(action)
        self.agent_selection = "nobody" if self.bids == 3 else self.agent_selection


class Leaving(support.pettingzoo_toys.Auction):
    def step(self, action):
        super().step(action)
        self.agents = [] if self.bids == 8 else self.agents


class Nameless(support.pettingzoo_toys.Auction):
    def __init__(self):
        self.possible_agents = None


@pytest.mark.parametrize(
    ("name", "fields", "reason"),
    [
        ("Blind", {}, r"agent early_0: reset\(\) gave no observation for it"),
        ("Stateful", {"state": True}, r"state\(\) has shape \(5,\), its state_space says \(2,\)"),
        ("Nobody", {}, "agent nobody is not among possible_agents"),
        ("Leaving", {}, r"agent x_\d: left `agents` before it took its last step, step\(None\)"),
        ("Nameless", {}, "has no possible_agents"),
    ],
)
def test_what_an_environment_leaves_out_is_named_too(name, fields, reason):
    report = check_env(EnvConfig(id=f"{__name__}:{name}", **fields), Amount.of_steps(30))
    assert re.search(reason, report.findings[0].text), report.findings


def test_the_check_says_who_acts_how():
    texts = {}
    for name, fields in (("Shift", {}), ("Auction", {}), ("Told", {"action_mask": "info"}), ("raw_env", {})):
        report = check_env(EnvConfig(id=f"{TOYS}:{name}", **fields), Amount.of_steps(30))
        assert report.ok, report.findings
        assert report.episodes
        texts[name] = report.findings[-1].text
    assert texts["Shift"] == "3 agents that act at once (early: 1; late: 1; whole: 1)"
    assert texts["Auction"] == "3 agents that take turns (x: 3)"
    again = check_env(EnvConfig(id=f"{TOYS}:Shift", kwargs={"fault": "repeat"}), Amount.of_steps(30))
    assert "resume cannot be exact" in again.findings[-2].text
    used = check_env(EnvConfig(id=f"{TOYS}:Shift", kwargs={"fault": "used"}), Amount.of_steps(30))
    assert "rebuilt for every episode" in used.findings[-1].text


# -- what agents see --------------------------------------------------------------------------------------------------


def test_the_number_of_an_agent_follows_its_own_numbers():
    env = made(SPREAD, 2, agent_id=True)
    observations = env.reset()
    assert env.spaces.observation.shape == (21,)
    for _ in range(26):  # beyond the end of an episode
        assert np.array_equal(observations[:, 18:], np.tile(np.eye(3), (2, 1)))
        step = env.step(np.zeros(6, np.int64))
        observations = step.observations
        assert np.array_equal(step.successors[:, 18:], np.tile(np.eye(3), (2, 1)))


def test_the_number_of_an_agent_stays_where_it_is_gone():
    env = made(f"{TOYS}:Shift", agent_id=True)
    env.reset()
    for _ in range(4):
        step = env.step(np.zeros(3, np.int64))
    assert step.observations[0].tolist() == [0, 0, 0, 1, 0, 0]
    env = made(TICTACTOE, agent_id=True)
    assert np.array_equal(env.reset()["agent_id"], np.eye(2))


def test_all_agents_see_the_state_of_the_world():
    env = made(f"{TOYS}:Shift", state=True)
    assert env.reset()["state"].tolist() == [[0, env.reset()["observation"][2, 2]]] * 3
    for number in range(1, 6):
        step = env.step(np.zeros(3, np.int64))
        assert (step.observations["state"][:, 0] == number).all()
    step = env.step(np.zeros(3, np.int64))
    assert (step.observations["state"][:, 0] == 0).all()  # of the next episode


def test_agents_with_different_spaces_have_their_numbers_first():
    env = made("mpe2/simple_speaker_listener_v4", 2)
    speaker, listener = env.agent_spaces
    assert (speaker.observation.shape, listener.observation.shape) == ((3,), (11,))
    assert (speaker.action, listener.action) == (Discrete(3), Discrete(5))
    assert (env.spaces.observation.shape, env.spaces.action) == ((11,), Discrete(5))
    observations = env.reset()
    assert (observations[::2, :3] != 0).any()
    assert not observations[::2, 3:].any()


def test_teams_are_agents_with_one_beginning_of_the_name_and_equal_spaces():
    tag = PettingZooRecipe(EnvConfig(id="mpe2/simple_tag_v3")).team
    assert teams(tag) == {"adversary": (0, 1, 2), "agent": (3,)}
    speaking = PettingZooRecipe(EnvConfig(id="mpe2/simple_speaker_listener_v4")).team
    assert teams(speaking) == {"speaker": (0,), "listener": (1,)}
    mixed = TeamSpaces(("x_0", "x_1"), speaking.given, speaking.spaces, speaking.together)
    assert teams(mixed) == {"x_0": (0,), "x_1": (1,)}
    assert TeamSpaces.from_json(tag.to_json()) == tag


def test_agents_with_other_kinds_of_spaces_are_refused_with_both_names():
    from rlstudio.envs.pettingzoo.agent_spaces import joined

    flat, picture = Box((3,), "float32", (0.0,), (1.0,)), Box((3, 3), "uint8", (0.0,), (255.0,))
    with pytest.raises(Incompatible, match=r"game: a_0 has .* and b_0 has .*; agents of one environment must have"):
        joined(("a_0", "b_0"), [flat, picture], "game")
    with pytest.raises(Incompatible, match="a_0 has"):
        joined(("a_0", "b_0"), [Dict((("x", flat),)), Dict((("y", flat),))], "game")
