"""PPO by self-play in tic-tac-toe and connect four: `python -m benchmarks.games`.

Each seed is a run of a shipped config as a user would launch it, with one thread; the last policy plays greedily. In
tic-tac-toe its results are exact, over all positions, alone and with a tree search on top: the opponents are chance and
perfect play that takes any of its best moves. Connect four has too many positions: there it plays games from both
seats. Every finished seed is a line of `benchmarks/results/games.jsonl`, so the command can be stopped and started
again. The tables go to `docs/howto/self-play.md`.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from benchmarks.learning import digest, read_store, stated
from benchmarks.page import replace_between, table
from benchmarks.records import RESULTS, provenance
from benchmarks.seed_table import newest, train_missing
from benchmarks.settings import OURS
from benchmarks.venvs import ROOT, ours
from rlstudio import orchestrator
from rlstudio.agents.agent import Agent
from rlstudio.core.action_mask import ACTION_MASK
from rlstudio.envs.worlds.games.board import TicTacToe
from rlstudio.envs.worlds.games.exact import Level, Strategy, at_random, by, outcomes, perfectly, solve
from rlstudio.experiment.config.experiment import ExperimentConfig, load_experiment
from rlstudio.experiment.judging.evaluate import evaluate
from rlstudio.experiment.self_play.build import search_by, searchable

STORE = RESULTS / "games.jsonl"
PAGE = ROOT / "docs" / "howto" / "self-play.md"
SEEDS = 10
SIMULATIONS = 16
GAMES = 2_000
"""Of connect four, against each opponent, half of them from each seat."""

OPPONENTS: dict[str, Strategy] = {"chance": at_random, "perfect play": perfectly}


@cache
def levels() -> list[Level]:
    return solve(TicTacToe())


def exact_losses(strategy: Strategy) -> dict[str, float]:
    """How likely the strategy loses a game of tic-tac-toe: against whom, and from which seat."""
    losses = {}
    for name, opponent in OPPONENTS.items():
        losses[f"first, {name}"] = outcomes(levels(), strategy, opponent).losses
        losses[f"second, {name}"] = outcomes(levels(), opponent, strategy).wins
    return losses


def on_tictactoe(cfg: ExperimentConfig, agent: Agent) -> dict[str, Any]:
    player = search_by(agent, searchable(cfg.env, "env.id"), SIMULATIONS, greedy=True)
    # A greedy search varies nothing, so it reads no more of these numbers than their shape.
    searched = by(lambda views: player.choose(views, np.zeros(views[ACTION_MASK].shape)))
    return {"losses": exact_losses(by(agent.act)), "searched": exact_losses(searched)}


def on_connect_four(cfg: ExperimentConfig, agent: Agent) -> dict[str, Any]:
    opponents = cfg.eval.opponents
    played = evaluate(agent, cfg.env, episodes=GAMES * len(opponents), seed=cfg.env.seed, opponents=opponents)
    return {"wins": {name: played.versus[f"{name}/win_rate"] for name in opponents}}


class Game(NamedTuple):
    name: str
    config: str
    judge: Callable[[ExperimentConfig, Agent], dict[str, Any]]


TICTACTOE = Game("tic-tac-toe", "configs/ppo/tictactoe.yaml", on_tictactoe)
CONNECT_FOUR = Game("connect four", "configs/ppo/connect_four.yaml", on_connect_four)
GAMES_PLAYED = (TICTACTOE, CONNECT_FOUR)


def config(game: Game, seed: int = 0, overrides: tuple[str, ...] = ()) -> ExperimentConfig:
    return load_experiment(game.config, [f"env.seed={seed}", "runtime.threads=1", *overrides])


def identity(game: Game) -> str:
    return digest([stated(config(game)), SIMULATIONS, GAMES])


def run(game: Game, seed: int, overrides: tuple[str, ...] = ()) -> dict[str, Any]:
    cfg = config(game, seed, overrides)
    used = time.process_time()
    with tempfile.TemporaryDirectory() as runs:
        judged = game.judge(cfg, orchestrator.run(cfg, runs_dir=runs, progress=False).agent())
    result = {"case": game.name, "seed": seed, "identity": identity(game), **judged}
    times = {"env_steps": cfg.train.planned_steps, "cpu_seconds": round(time.process_time() - used, 1)}
    return {**result, **times, **provenance({OURS: ours().versions})}


def current(game: Game, stored: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    return newest(stored, game.name, identity(game))


def score(line: dict[str, Any]) -> str:
    if "wins" in line:
        return ", ".join(f"{100 * share:.1f} % won against {name}" for name, share in line["wins"].items())
    alone, searching = (100 * max(line[key].values()) for key in ("losses", "searched"))
    return f"lost at most {alone:.2f} %, searching {searching:.2f} %"


def tictactoe_rows(stored: list[dict[str, Any]]) -> list[list[str]]:
    lines = [*current(TICTACTOE, stored).values()]
    made = []
    for name, key in (("the network alone", "losses"), (f"with a search of {SIMULATIONS}", "searched")):
        if lines:
            worst = {seat: max(line[key][seat] for line in lines) for seat in lines[0][key]}
            never = sum(max(line[key].values()) == 0 for line in lines)
            made.append([name, *(f"{100 * loss:.2f} %" for loss in worst.values()), f"{never} of {len(lines)}"])
    return made


def connect_four_rows(stored: list[dict[str, Any]]) -> list[list[str]]:
    lines = [*current(CONNECT_FOUR, stored).values()]
    opponents = lines[0]["wins"] if lines else ()
    made = []
    for name in opponents:
        shares = [100 * line["wins"][name] for line in lines]
        made.append([name, ", ".join(f"{share:.1f}" for share in shares), f"{np.mean(shares):.1f}"])
    return made


def write_page(stored: list[dict[str, Any]]) -> str:
    seats = [f"lost as the {seat.replace(',', ', against')}" for seat in exact_losses(perfectly)]
    first = table(["policy", *seats, "seeds that never lose"], tictactoe_rows(stored))
    second = table(["opponent", "games won, %, by seed", "mean"], connect_four_rows(stored))
    replace_between(PAGE, "tictactoe", first)
    replace_between(PAGE, "connect-four", second)
    return f"{first}\n\n{second}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.games", description="Self-play, seed by seed.")
    parser.add_argument("--games", nargs="+", choices=[game.name for game in GAMES_PLAYED], help="(default: all)")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--render", action="store_true", help="only write the tables again, from stored results")
    parser.add_argument("--smoke", action="store_true", help="train each for one epoch and store nothing")
    args = parser.parse_args()
    games = [game for game in GAMES_PLAYED if not args.games or game.name in args.games]
    if args.smoke:
        for game in games:
            print(f"{game.name}: {score(run(game, 0, ('train.epochs=1',)))}")
        return
    train_missing(STORE, 0 if args.render else args.seeds, games, current, run, score)
    print(write_page(read_store(STORE)))


if __name__ == "__main__":
    main()
