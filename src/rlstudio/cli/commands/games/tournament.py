"""`tournament`: the policies of runs and players by rule meet each other in a game for two. Changes no run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rlstudio.cli.arguments import completion
from rlstudio.cli.arguments.options import POLICY_HELP, CheckpointChoice, Imports, Json, RunsDir, Seed
from rlstudio.cli.arguments.policies import load_policy, named_policies
from rlstudio.cli.arguments.selection import Selection
from rlstudio.cli.screen.terminal import Terminal, stdout
from rlstudio.core.errors import UserError
from rlstudio.experiment.folder.runs_dir import DEFAULT_RUNS_DIR

if TYPE_CHECKING:
    from rlstudio.delivery.policies import TrainedPolicy
    from rlstudio.experiment.analysis.tournament import Tournament


def tournament(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN...",
            help=f"{POLICY_HELP} A name means all runs that have it.",
            autocompletion=completion.runs,
        ),
    ],
    player: Annotated[
        list[str] | None,
        typer.Option("--player", metavar="NAME", help="Another player: random, minimax, ... May be repeated."),
    ] = None,
    games: Annotated[int, typer.Option("--games", min=2, max=10_000, help="Games of each pair of players.")] = 100,
    simulations: Annotated[
        int,
        typer.Option(
            "--simulations", min=0, max=10_000, help="Let each policy also play with a tree search of N simulations."
        ),
    ] = 0,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Write a picture: .png, .svg or .pdf.")
    ] = None,
    seed: Seed = None,
    checkpoint: CheckpointChoice = "last",
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
    imports: Imports = None,
    json: Json = False,
) -> None:
    """Let policies play a two-player game against each other: win matrix and Elo.

    Everyone plays everyone, half of the games from each seat. Policies sample their actions; with --simulations each
    also plays with a tree search. Elo is a Bradley-Terry fit with 95 % intervals, `random` at 0.

    \b
    rlctl tournament ppo_tictactoe --player random --player minimax
    rlctl tournament last --player tactical --simulations 64 --out table.png
    """
    from rlstudio.experiment.analysis.curves import SUFFIXES
    from rlstudio.storage.output_file import output_path

    if out is not None:
        output_path(out, SUFFIXES)
    loaded = [
        # A bundle's graph only acts greedily; its network is asked for probabilities.
        load_policy(policy, checkpoint, runs_dir, imports or (), networks=True)
        for policy in named_policies(Selection(runs, None, None, None, None), runs_dir)
    ]
    result = _played(loaded, player or (), games, simulations, loaded[0].cfg.env.seed if seed is None else seed)
    if out is not None:
        from rlstudio.experiment.analysis.tournament import draw_tournament

        draw_tournament(result, out)
    if json:
        stdout().document(result.to_json())
    else:
        _print(stdout(), result)
        if out is not None:
            stdout().line(str(out))


def _played(
    policies: Sequence[TrainedPolicy], names: Sequence[str], games: int, simulations: int, seed: int
) -> Tournament:
    from rlstudio.experiment.analysis.entrants import distinct, entrants
    from rlstudio.experiment.analysis.tournament import play_tournament

    first = policies[0]
    for other in policies[1:]:
        if other.cfg.env.task != first.cfg.env.task:
            raise UserError(f"{other.id} was trained on {other.cfg.env.id} and {first.id} on {first.cfg.env.id}, or on"
                            " other settings of it; name runs of one game")  # fmt: skip
    labels = distinct([policy.cfg.name for policy in policies], [policy.id[-4:] for policy in policies], names)
    agents = {label: policy.agent for label, policy in zip(labels, policies, strict=True)}
    return play_tournament(entrants(agents, names, first.cfg.env, simulations), first.cfg.env, games, seed)


def _print(out: Terminal, result: Tournament) -> None:
    """From the best to the worst; a column for the score against each."""
    out.line(f"{result.env_id}, {result.games} games of every two players, draws as half a win", "bold")
    order, scores = result.order(), result.scores()
    elo, low, high = result.ratings
    rows = []
    for number, place in enumerate(order, 1):
        against = ["" if place == other else f"{scores[place, other]:.2f}" for other in order]
        rating = f"{elo[place]:.0f} [{low[place]:.0f}, {high[place]:.0f}]"
        rows.append([str(number), result.names[place], rating, *against])
    out.table(["", "player", "Elo [95 %]", *(f"vs {number}" for number in range(1, len(order) + 1))], rows)
