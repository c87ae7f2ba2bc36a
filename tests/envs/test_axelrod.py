"""Strategies of the Axelrod library as opponents, and a policy of ours as one of its players."""

import sys

import numpy as np
import pytest

from rlstudio.core.contracts import Acted
from rlstudio.core.errors import ConfigError, Incompatible, UserError
from rlstudio.core.spaces import Box, Discrete, Spaces
from rlstudio.envs.check import check_env
from rlstudio.envs.check_play import Amount
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.extras import OURS
from rlstudio.envs.make import make_single, make_vec_env
from rlstudio.envs.worlds.ipd import axelrod_env
from rlstudio.envs.worlds.ipd.axelrod_library import memory_one, player
from rlstudio.envs.worlds.ipd.axelrod_players import policy_player, round_robin
from rlstudio.envs.worlds.ipd.memory_one import STRATEGIES
from rlstudio.envs.worlds.ipd.world import IPD, ROUNDS
from rlstudio.experiment.training.build import build
from support.axelrod_toys import stand_in
from support.experiments import tiny

PLAIN = "rlstudio/AxelrodIPD-v0"


@pytest.fixture
def axelrod(monkeypatch):
    module = stand_in()
    monkeypatch.setitem(sys.modules, "axelrod", module)
    return module


def test_without_the_library_it_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "axelrod", None)
    with pytest.raises(UserError, match=r"needs axelrod; run `pip install \"Axelrod==4.14.0\"`"):
        make_single(EnvConfig(id=PLAIN))
    assert OURS[axelrod_env.ID][1] == ROUNDS


@pytest.mark.usefixtures("axelrod")
def test_who_remembers_one_round_becomes_five_numbers():
    assert memory_one("TitForTat") == memory_one("tit_for_tat") == STRATEGIES["tit_for_tat"]
    assert memory_one("Defector") == STRATEGIES["always_defect"]
    assert memory_one("GTFT") == (1.0, 1.0, 0.25, 1.0, 0.25)
    world = IPD("axelrod:TitForTat", tremble=0.0)
    assert np.array_equal(world.opponents.strategies, [STRATEGIES["tit_for_tat"]])


@pytest.mark.usefixtures("axelrod")
@pytest.mark.parametrize(
    ("opponent", "message"),
    [
        ("axelrod:TitFor2Tats", "remembers more than the last round; play against it in env.id=rlstudio/AxelrodIPD-v0"),
        ("axelrod:Random", "draws, and tells no probabilities"),
        ("axelrod:MindReader", "instead of playing"),
        ("axelrod:TitForTatt", "is no strategy of Axelrod; did you mean TitForTat?"),
        ("nobody", "axelrod:NAME"),
    ],
)
def test_refusals_are_one_line(opponent, message):
    with pytest.raises(ConfigError, match=message) as caught:
        make_vec_env(EnvConfig(id="rlstudio/IPD-v0", kwargs={"opponent": opponent}), 1)
    assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("axelrod")
def test_the_plain_env_shows_and_pays_what_the_world_does():
    """Against the same certain strategy, as it trembles in neither."""
    kwargs = {"tremble": 0.0, "history": 4}
    world = make_vec_env(EnvConfig(id="rlstudio/IPD-v0", kwargs={**kwargs, "opponent": "tit_for_tat"}), 1)
    plain = make_vec_env(EnvConfig(id=PLAIN, kwargs={**kwargs, "opponent": "TitForTat"}), 1)
    assert plain.spaces == world.spaces
    assert np.array_equal(plain.reset(), world.reset())
    for action in np.random.default_rng(0).integers(0, 2, ROUNDS + 5):
        one, other = plain.step(np.array([action])), world.step(np.array([action]))
        for name in ("observations", "rewards", "terminated", "truncated"):
            assert np.array_equal(getattr(one, name), getattr(other, name)), name


@pytest.mark.usefixtures("axelrod")
def test_the_plain_env_repeats_itself_and_is_fit_to_train_on():
    cfg = EnvConfig(id=PLAIN, kwargs={"opponent": ["GTFT", "Random", "TitFor2Tats"], "history": 3})
    report = check_env(cfg, Amount.of_steps(450))
    assert report.ok, report.findings
    assert not [finding for finding in report.findings if finding.severity == "warning"]
    assert "opponent_cooperates" in report.findings[-1].text
    unwrapped = make_single(cfg).unwrapped
    unwrapped.reset(seed=1)
    assert unwrapped._opponent.length == -1  # nobody knows the last round


class Grim:
    """Sees three rounds; defects as soon as one of them has a defection of the other."""

    spaces, remembers = Spaces(Box((3, 5), "float32", (0.0,), (1.0,)), Discrete(2)), False

    def step(self, observations, carry=None, noise=None):
        betrayed = observations[:, :, [2, 4]].any((1, 2))
        return Acted(np.where(betrayed, 0, 1), None, {})


def test_a_policy_is_a_player_with_a_rank(axelrod):
    mine = policy_player(Grim(), called="mine")
    assert isinstance(mine, axelrod.Player)
    table = round_robin([mine, *map(player, ("TitForTat", "Defector", "GTFT"))], turns=20, repetitions=3, seed=4)
    assert [standing.rank for standing in table] == [1, 2, 3, 4]
    assert table == round_robin(
        [mine, *map(player, ("TitForTat", "Defector", "GTFT"))], turns=20, repetitions=3, seed=4
    )
    (pair,) = [round_robin([mine, player("Defector")], turns=20)]
    assert [(standing.name, standing.score) for standing in pair] == [("Defector", (5 + 19) / 20), ("mine", 19 / 20)]
    friends = round_robin([mine, player("TitForTat")], turns=20)
    assert [standing.score for standing in friends] == [3.0, 3.0]


def test_a_policy_of_another_game_is_refused(axelrod):
    agent = build(tiny()).trainer.agent
    with pytest.raises(Incompatible, match="was not trained in the iterated prisoner's dilemma"):
        policy_player(agent)
    trained = build(tiny(env={"id": "rlstudio/IPD-v0", "kwargs": {"history": 2, "opponent": "grudger"}})).trainer.agent
    assert policy_player(trained).strategy(axelrod.Player()) in axelrod.Action


@pytest.mark.slow
def test_the_library_itself():
    """Everybody who remembers one round, and a match by its own rules."""
    axelrod = pytest.importorskip("axelrod")
    from axelrod import Match

    assert memory_one("WinStayLoseShift") == STRATEGIES["win_stay_lose_shift"]
    assert memory_one("Cooperator") == STRATEGIES["always_cooperate"]
    assert memory_one("SuspiciousTitForTat") == STRATEGIES["suspicious_tit_for_tat"]
    mine = policy_player(Grim())
    actions = Match((mine, axelrod.Alternator()), turns=6).play()
    assert "".join(str(one) for one, _ in actions) == "CCDDDD"
    table = round_robin([mine, *map(player, ("TitForTat", "Defector", "GTFT", "FirstByDavis"))], turns=50)
    assert len({standing.name for standing in table}) == 5
    report = check_env(EnvConfig(id=PLAIN, kwargs={"opponent": ["FirstByGrofman", "GTFT"]}))
    assert report.ok, report.findings
