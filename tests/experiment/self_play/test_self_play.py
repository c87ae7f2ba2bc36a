"""Self-play in runs: who is met, what is recorded, exact resume, evaluation against opponents."""

from typing import ClassVar

import numpy as np
import pytest

from rlstudio.core.contracts import Acted
from rlstudio.core.errors import ConfigError, EnvFault, Incompatible
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.named_players import named_player
from rlstudio.envs.seats.player import pick
from rlstudio.envs.worlds.games.board import TicTacToe
from rlstudio.experiment.judging.evaluate import evaluate
from rlstudio.experiment.self_play.opponents import FIRST_SNAPSHOT
from rlstudio.experiment.training.build import build
from rlstudio.experiment.training.loop import Position, train
from support.experiments import tiny
from support.tiny_runs import assert_a_cut_changes_nothing

TIC_TAC_TOE, CONNECT_FOUR = "rlstudio/TicTacToe-v0", "rlstudio/ConnectFour-v0"
SIZES = {"epochs": 4, "steps_per_epoch": 128, "rollout_steps": 8, "batch_size": 64}


def game(algo="ppo", id=TIC_TAC_TOE, opponents=None, train=None, **more):
    chosen = {"opponents": opponents or {"latest": 1, "past": 2, "random": 1}, "snapshot_every": 1, "pool": 2}
    env = {"id": id, "num_envs": 16}
    return tiny(
        algo, env=env, train={**SIZES, **(train or {})}, self_play={**chosen, **more.pop("self_play", {})}, **more
    )


def trained(cfg):
    """What a run built, and the reports of its epochs."""
    built = build(cfg)
    return built, [tick.report for tick in train(built.trainer, cfg.train, Position()) if tick.report]


def test_learner_snapshot_rule_and_planner_all_have_a_seat_in_one_run():
    kinds = ("latest", "past", "random", "tactical", "planner")
    sizes = {"steps_per_epoch": 768, "rollout_steps": 48, "epochs": 2}
    cfg = game(id=CONNECT_FOUR, opponents=dict.fromkeys(kinds, 1), self_play={"simulations": 2}, train=sizes)
    built, reports = trained(cfg)
    names = {name for report in reports for name in report.metrics}
    for kind in kinds:
        assert f"self_play/{kind}/win_rate" in names
    assert {"self_play/win_rate", "self_play/elo", "self_play/elo_low", "self_play/snapshots"} <= names
    assert reports[-1].metrics["self_play/snapshots"] == 2
    assert reports[-1].metrics["rollout/episodes"] > 0
    built.close()


@pytest.mark.parametrize("algo", ["dqn", "qrdqn"])
def test_a_search_follows_the_values_of_a_learner_that_has_no_policy(algo):
    sizes = {"epochs": 2, "steps_per_epoch": 128, "learning_starts": 64, "batch_size": 16}
    met = {"opponents": {"planner": 1}, "simulations": 2}
    cfg = tiny(algo, env={"id": TIC_TAC_TOE, "num_envs": 8}, train=sizes, self_play=met)
    built, reports = trained(cfg)
    assert "self_play/planner/win_rate" in {name for report in reports for name in report.metrics}
    built.close()


def test_the_pool_holds_the_weights_of_its_moment_and_forgets_the_oldest():
    cfg = game()
    built = build(cfg)
    learner, env, at_ends = built.trainer.agent.model, built.runtime.env, []
    for tick in train(built.trainer, cfg.train, Position()):
        if tick.report:
            at_ends.append({name: tensor.numpy().copy() for name, tensor in learner.state_dict().items()})
    kept = env.self_play.weights
    assert {number - FIRST_SNAPSHOT for number in kept} >= {2, 3}
    assert len(kept) <= 2 + len(env.opponents_in_play())
    for number, weights in kept.items():
        for name, array in at_ends[number - FIRST_SNAPSHOT].items():
            assert np.array_equal(weights[name], array)


def test_a_reset_forgets_the_pool():
    cfg = game(train={"epochs": 2})
    built, _ = trained(cfg)
    env, fresh = built.runtime.env, build(cfg).runtime.env
    first = {name: rows.copy() for name, rows in fresh.reset().items()}
    assert env.self_play.weights
    again = env.reset()
    assert not env.self_play.weights
    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert np.array_equal(env.position()["opponent"], fresh.position()["opponent"])


def test_who_is_met_depends_on_the_episode_alone():
    env = build(game(opponents={"latest": 3, "random": 1})).runtime.env
    envs, episodes = np.arange(400) % 20, np.arange(400) // 20
    order = np.random.default_rng(0).permutation(400)
    seats, opponents = env.self_play.assign(envs, episodes)
    again = env.self_play.assign(envs[order], episodes[order])
    assert np.array_equal(seats[order], again[0])
    assert np.array_equal(opponents[order], again[1])
    assert abs(seats.mean() - 0.5) < 0.1
    assert abs((opponents == 0).mean() - 0.75) < 0.1


def test_a_snapshot_is_taken_once_the_learner_wins_enough():
    epochs, sizes = {"snapshot_every": 1000, "snapshot_win_rate": 0.05}, {"epochs": 2, "steps_per_epoch": 512}
    _, reports = trained(game(self_play=epochs, train=sizes))
    assert reports[-1].metrics["self_play/snapshots"] == 2
    _, reports = trained(game(self_play={**epochs, "snapshot_win_rate": None}, train=sizes))
    assert reports[-1].metrics["self_play/snapshots"] == 0


@pytest.mark.parametrize("algo", ["ppo", "dqn"])
def test_a_run_cut_in_the_midst_of_games_goes_on_bit_for_bit(algo, tmp_path):
    sizes = {} if algo == "ppo" else {"train_every": 16, "rollout_steps": None, "learning_starts": 64}
    sizes = {name: value for name, value in {**SIZES, **sizes}.items() if value is not None}
    chosen = {"opponents": {"latest": 1, "past": 2, "random": 1}, "snapshot_every": 1, "pool": 2}
    cfg = tiny(algo, env={"id": TIC_TAC_TOE, "num_envs": 16}, train=sizes, self_play=chosen,
               eval={"opponents": ["random", "minimax"]}, ckpt={"every_epochs": 1})  # fmt: skip
    assert_a_cut_changes_nothing(cfg, tmp_path)


@pytest.mark.parametrize("others", [{"latest": 1, "past": 2, "minimax": 1}, {"past": 2, "latest": 1, "random": 1}])
def test_scores_against_one_opponent_do_not_become_those_of_another(others):
    """Also where there are as many as before: the pool knows them by their numbers."""
    first, second = build(game()), build(game(opponents=others))
    first.runtime.env.reset()
    position = first.runtime.env.position()
    with pytest.raises(ConfigError, match=r"keeps its kinds of opponents \(latest, past, random\), and these are"):
        second.runtime.env.seek(position)
    del position["self_play"]["kinds"]  # of a checkpoint from before they were written down
    second.runtime.env.seek(position)


class Perfect:
    """Plays by the table of all positions."""

    def __init__(self):
        self.player = named_player("minimax", EnvConfig(id=TIC_TAC_TOE), TicTacToe.spaces, "test")

    def step(self, observations, carry=None, noise=None):
        return Acted(self.player.choose(observations, np.full((len(observations["action_mask"]), 9), 0.5)), {}, None)


def test_an_evaluation_against_opponents_has_rates_by_name_and_seat():
    cfg = EnvConfig(id=TIC_TAC_TOE)
    result = evaluate(Perfect(), cfg, episodes=80, seed=1, opponents=["random", "minimax"])
    metrics = result.metrics()
    assert metrics["eval/random/loss_rate"] == 0
    assert metrics["eval/random/seat_0/win_rate"] > metrics["eval/random/seat_1/win_rate"] > 0.5
    assert metrics["eval/minimax/draw_rate"] == metrics["eval/minimax/seat_1/draw_rate"] == 1
    assert metrics["eval/return_mean"] == pytest.approx(metrics["eval/random/win_rate"] / 2)
    assert result == evaluate(Perfect(), cfg, episodes=80, seed=1, opponents=["random", "minimax"])
    assert evaluate(Perfect(), cfg, episodes=20, seed=1).versus == {}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"opponents": {"minmax": 1}}, r"self_play\.opponents: rlstudio/TicTacToe-v0 has no opponent 'minmax'"),
        ({"id": "CartPole-v1"}, "self_play: CartPole-v1 has one agent, and nobody to play against; leave it out"),
        ({"eval": {"opponents": ["minmax"]}}, r"eval\.opponents: rlstudio/TicTacToe-v0 has no opponent 'minmax'"),
        ({"eval": {"opponents": ["latest"]}}, r"eval\.opponents: rlstudio/TicTacToe-v0 has no opponent 'latest'"),
        ({"id": "rlstudio/IPDDuel-v0", "opponents": {"planner": 1}}, "planner: rlstudio/IPDDuel-v0 cannot be searched"),
        ({"policy": {"network": {"memory": "gru"}}}, r"policy\.network\.memory: "),
        ({"opponents": {"latest": 0.0}}, r"self_play\.opponents: .*every weight is 0"),
    ],
)
def test_what_does_not_fit_self_play_is_refused_in_one_line(changes, reason):
    with pytest.raises((ConfigError, Incompatible), match=reason):
        build(game(**changes))


def test_opponents_of_an_evaluation_that_nobody_can_meet_are_refused_before_a_run():
    for id, algo, reason in (
        ("CartPole-v1", "ppo", r"eval\.opponents: CartPole-v1 has one agent, and nobody to play against; leave it out"),
        ("mpe2/simple_spread_v3", "sac", r"eval\.opponents: opponents make one choice, but mpe2/simple_spread_v3 take"),
    ):
        env = {"id": id, "kwargs": {"continuous_actions": True}} if algo == "sac" else {"id": id}
        with pytest.raises(Incompatible, match=reason):
            build(tiny(algo, env=env, eval={"opponents": ["random"]}))


class ByRule:
    """A player of one's own, with one mistake."""

    def __init__(self, answer):
        self.answer = answer

    def choose(self, observations, uniform):
        return self.answer(observations, uniform)


def trained_and_judged(cfg):
    built, _ = trained(cfg)
    evaluate(built.trainer.agent, cfg.eval_env, episodes=20, seed=1, opponents=cfg.eval.opponents)


def player(answer):
    return lambda world: ByRule(answer)


class OwnGame(TicTacToe):
    id = "OwnGame-v0"
    players: ClassVar = {
        "good": player(lambda seen, uniform: pick(seen["action_mask"] > 0, uniform)),
        "outside": player(lambda seen, uniform: uniform.argmax(-1) + 9),
        "forbidden": player(lambda seen, uniform: seen["action_mask"].argmin(-1)),
        "fraction": player(lambda seen, uniform: uniform[:, 0]),
        "table": player(lambda seen, uniform: np.zeros((3, 3), int)),
        "raising": player(lambda seen, uniform: {}["move"]),
        "nothing": lambda world: None,
        "unmade": lambda: None,
    }


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("outside", r"chose \d+, which is not allowed; there are 0 to 8"),
        ("forbidden", r"chose \d, which is not allowed"),
        ("fraction", r"chose float64\[\d+\], not a whole number for each of"),
        ("table", r"chose int64\[3, 3\], not a whole number for each of"),
        ("raising", r"raised KeyError: 'move' at tests/experiment/self_play/test_self_play.py:\d+"),
        ("nothing", r"is a NoneType without `choose\(observations, uniform\)`"),
        ("unmade", r"cannot be made: TypeError: .* takes 0 positional arguments"),
    ],
)
def test_a_player_of_ones_own_that_breaks_its_word_is_named(name, reason):
    own = f"{__name__}:OwnGame"
    for field in ("self_play.opponents", "eval.opponents"):
        chosen = {"opponents": {name: 1}} if field.startswith("self") else {"opponents": {"good": 1}}
        judged = {"eval": {"opponents": [name]}} if field.startswith("eval") else {}
        cfg = game(id=own, train={"epochs": 1}, **judged, self_play=chosen)
        with pytest.raises((EnvFault, Incompatible), match=f"{field}: the player '{name}' of {own} {reason}"):
            trained_and_judged(cfg)


def test_a_player_of_ones_own_that_keeps_its_word_plays():
    _, reports = trained(game(id=f"{__name__}:OwnGame", opponents={"good": 1}, train={"epochs": 1}))
    assert "self_play/good/win_rate" in reports[-1].metrics
