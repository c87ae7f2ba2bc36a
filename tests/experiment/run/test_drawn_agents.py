"""Parameters that are drawn for each episode where several agents play: with opponents, in teams."""

import numpy as np
import pytest

from rlstudio.core.contracts import Transition
from rlstudio.core.errors import ConfigError
from rlstudio.core.spaces import Box, Discrete, Spaces
from rlstudio.envs.check import check_env
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.worlds.games.board import TicTacToe
from rlstudio.experiment.metrics.indexed.index import read_series
from rlstudio.experiment.self_play.build import searchable
from rlstudio.experiment.training.build import build
from support.experiments import tiny
from support.tiny_runs import assert_a_cut_changes_nothing, run_to_the_end

DRAWN = {"wage": {"uniform": [1.0, 2.0]}}
MET = {"opponents": {"latest": 1, "past": 1, "random": 2}, "snapshot_every": 1, "pool": 2}
TEAMS = {"long": {"agents": [0]}, "short": {"agents": [1]}}
STAGES = [
    {"name": "poor", "params": {"wage": {"uniform": [1.0, 2.0]}}, "gate": {"at_least": 0.5, "window": 8}},
    {"name": "rich", "params": {"wage": {"uniform": [5.0, 6.0]}}},
]


class Wages:
    """Each of two agents is paid the wage in every step; the second is out after two of the four. State [steps]."""

    id = "Wages-v0"
    spaces = Spaces(Box((1,), "float32", (0.0,), (4.0,)), Discrete(2))
    state_size, noise_size, limit, agents = 1, 0, 4, 2
    params = {"wage": 1}

    def initial(self, noise, p, xp):
        return xp.zeros((*noise.shape[:-1], 1))

    def dynamics(self, states, actions, p, xp):
        steps = states[..., 0] + 1.0
        paid = steps * 0.0 + p["wage"]
        out = xp.stack((steps >= 4.0, steps >= 2.0), -1)
        return Transition(xp.stack((steps,), -1), xp.stack((paid, paid), -1), out)

    def observe(self, states, p, xp):
        return xp.stack((states, states), -2)


def wages(**sections):
    base = {
        "env": {"id": f"{__name__}:Wages", "num_envs": 8, "params": DRAWN},
        "train": {"epochs": 3, "steps_per_epoch": 192, "rollout_steps": 12, "batch_size": 16},
    }
    return tiny("ppo", **{**base, **sections})


def tallied(cfg):
    built = build(cfg)
    for _ in range(2):
        built.trainer.train_step()
    tally = built.trainer.source.take()
    built.close()
    return tally


@pytest.mark.parametrize(
    "sections", [{}, {"self_play": MET}, {"teams": TEAMS}], ids=["one policy", "opponents", "teams"]
)
def test_what_was_drawn_stands_beside_the_episode_that_had_it(sections):
    tally = tallied(wages(**sections))
    drawn = np.array(tally.draws.values["wage"])
    assert len(drawn) == len(tally.returns) == len(tally.draws.versions) > 20
    assert set(tally.lengths) == {2, 4}, "agents of both seats"
    np.testing.assert_allclose(np.array(tally.returns), drawn * tally.lengths, rtol=1e-6)
    assert len(set(drawn.tolist())) > 5


@pytest.mark.parametrize("sections", [{"self_play": MET}, {"teams": TEAMS}], ids=["opponents", "teams"])
def test_a_run_that_is_cut_goes_on_with_the_same_parameters(sections, tmp_path):
    cfg = wages(**sections, ckpt={"every_epochs": 1})
    assert_a_cut_changes_nothing(cfg, tmp_path)


def test_a_curriculum_follows_the_episodes_of_the_learner_against_its_opponents(tmp_path):
    section = {"success": {"metric": "return", "at_least": 2.0}, "stages": STAGES}
    cfg = wages(env={"id": f"{__name__}:Wages", "num_envs": 8}, self_play=MET, curriculum=section)
    series = read_series(run_to_the_end(cfg, tmp_path).path)
    last = {name: values[-1] for name, (_, values) in series.items()}
    assert (last["curriculum/stage"], last["self_play/win_rate"]) == (2, 1)
    assert 5.0 < last["params/wage"] < 6.0


class Bets(Wages):
    """What one of them wins the other loses: nothing where both do the same."""

    params = {"stake": 1.0, "colour": 3.0}

    def dynamics(self, states, actions, p, xp):
        step = super().dynamics(states, actions, {"wage": 0.0}, xp)
        won = (actions[..., 0] - actions[..., 1]) * p["stake"]
        return step._replace(rewards=xp.stack((won, -won), -1))


def test_the_check_says_whether_a_parameter_of_several_agents_changes_anything():
    drawn = {"stake": {"uniform": [1.0, 2.0]}, "colour": {"uniform": [1.0, 2.0]}}
    findings = check_env(EnvConfig(id=f"{__name__}:Bets", params=drawn)).findings
    found = {finding.text.split(" (")[0]: finding.severity for finding in findings if "params" in finding.text}
    assert found == {"env.params: stake changes the dynamics": "info", "env.params: colour changed nothing": "warning"}


@pytest.mark.parametrize("env", [f"{__name__}:Wages", "CartPole-v1"])
def test_parameters_of_the_evaluation_are_looked_at_before_a_run(env):
    cfg = wages(env={"id": env, "num_envs": 8}, eval={"params": {"wagge": 1.0}})
    with pytest.raises(ConfigError, match=r"^eval\.params: .* has no parameter 'wagge'"):
        build(cfg)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"curriculum": {"stages": STAGES}}, "curriculum: it cannot follow the teams long, short at once"),
        (
            {"env": {"id": f"{__name__}:Wages", "params": {"wage": {**DRAWN["wage"], "observed": True}}}},
            r"env\.params\.wage: with teams \(long, short\) it cannot be observed",
        ),
    ],
)
def test_what_teams_cannot_have_is_refused_in_one_line(changes, reason):
    with pytest.raises(ConfigError, match=reason) as refused:
        wages(teams=TEAMS, **changes)
    assert "\n" not in str(refused.value)


class Paid(TicTacToe):
    id = "Paid-v0"
    params = {"prize": 1.0}


def test_a_search_is_not_made_in_another_game_than_the_one_that_is_played():
    id = f"{__name__}:Paid"
    assert searchable(EnvConfig(id=id), "--simulations").id == Paid.id
    with pytest.raises(ConfigError, match=rf"--simulations: it would search {id} with .* env.params has others"):
        searchable(EnvConfig(id=id, params={"prize": 2.0}), "--simulations")
