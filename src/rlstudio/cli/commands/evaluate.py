"""`eval` and `play`: what a trained policy earns, and how it looks. Neither changes the run."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import typer

from rlstudio.cli.arguments import completion
from rlstudio.cli.arguments.options import (
    POLICY_HELP,
    Algos,
    CheckpointChoice,
    Envs,
    Imports,
    Json,
    RunOrBundle,
    RunsDir,
    Seed,
    States,
    Tags,
)
from rlstudio.cli.arguments.policies import load_policy, named_policies
from rlstudio.cli.arguments.selection import Selection
from rlstudio.cli.screen import text
from rlstudio.cli.screen.seeds import summary_line
from rlstudio.cli.screen.terminal import stdout
from rlstudio.core.errors import UserError
from rlstudio.experiment.folder.runs_dir import DEFAULT_RUNS_DIR

if TYPE_CHECKING:
    import numpy as np

    from rlstudio.core.contracts import Acted, Array, Carried, Player
    from rlstudio.delivery.policies import TrainedPolicy
    from rlstudio.experiment.config.experiment import ExperimentConfig
    from rlstudio.experiment.judging.evaluate import Evaluation


class _Played(NamedTuple):
    evaluation: Evaluation
    milliseconds: float  # of an action: the median share of the batch it was part of
    at_once: int  # actions in a batch


class _Timed:
    """Acts as the agent does, and records the seconds per action."""

    def __init__(self, agent: Player) -> None:
        self._agent = agent
        self.seconds: list[float] = []
        self.at_once = 0  # environments that it acts in

    def step(self, observations: Array, carry: Carried | None = None, noise: np.ndarray | None = None) -> Acted:
        started = time.perf_counter()
        acted = self._agent.step(observations, carry, noise)
        self.at_once = len(acted.actions)
        self.seconds.append((time.perf_counter() - started) / self.at_once)
        return acted


def evaluate(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RUN]... [planner.KEY=VALUE]...",
            help=f"{POLICY_HELP} A name means all runs that have it. Then settings of the planner.",
            autocompletion=completion.runs,
        ),
    ] = None,
    states: States = None,
    envs: Envs = None,
    algos: Algos = None,
    tags: Tags = None,
    planner: Annotated[
        str | None, typer.Option("--planner", metavar="KIND", help="Evaluate with a planner too: cem, icem, mppi, ...")
    ] = None,
    dynamics: Annotated[
        str | None,
        typer.Option("--dynamics", metavar="RUN", help="Plan in the model that this run learned (mbmpc, diffusion)."),
    ] = None,
    episodes: Annotated[int, typer.Option("--episodes", min=1, max=100_000, help="Episodes to play.")] = 20,
    seed: Seed = None,
    checkpoint: CheckpointChoice = "last",
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
    imports: Imports = None,
    json: Json = False,
) -> None:
    """Evaluate the policies of runs, bundles or versions: mean, IQM, 95 % interval.

    \b
    rlctl eval last --episodes 100
    rlctl eval cartpole:production
    rlctl eval last --planner mppi planner.horizon=20  # in its world's equations
    """
    settings = [word for word in words or () if "=" in word]
    for setting in settings:
        if planner is None or not setting.startswith("planner."):
            raise UserError(f"{setting}: only settings of a planner fit, as in --planner mppi planner.horizon=20")
    if dynamics is not None and planner is None:
        raise UserError(f"--dynamics {dynamics}: only a planner needs a model; say which with --planner KIND")
    named = [word for word in words or () if "=" not in word]
    policies = named_policies(Selection(named, states, envs, algos, tags), runs_dir)
    documents, returns = [], []
    for policy in policies:
        loaded = load_policy(policy, checkpoint, runs_dir, imports or (), networks=planner is not None)
        used = loaded.cfg.env.seed if seed is None else seed
        planning = None
        if planner is not None:
            lender = None if dynamics is None else load_policy(dynamics, "last", runs_dir, imports or ())
            planning = _planning(loaded, planner, settings, lender)
        own = _played(loaded.agent, loaded.cfg, episodes, used)
        planned = None if planning is None else _played(planning, loaded.cfg, episodes, used)
        returns.append(own.evaluation.summary.mean)
        request = {"id": loaded.id, "checkpoint": loaded.env_steps, "seed": used, "episodes": episodes}
        documents.append({**request, **_document(own, planned)})
        if not json:
            title = f"{loaded.cfg.name} at {loaded.env_steps:,} steps on {own.evaluation.env_id}"
            stdout().line(f"{title}, {episodes} episodes, seed {used}")
            for line in _lines(own, planned, planner):
                stdout().line(f"  {line}")
    if json:
        stdout().document(documents if len(documents) > 1 else documents[0])
    elif len(returns) > 1:
        stdout().line(f"all {summary_line(returns)}", "bold")


def _planning(loaded: TrainedPolicy, kind: str, settings: Sequence[str], lender: TrainedPolicy | None) -> Player:
    """An agent that plans with this kind of planner; in the model that `lender` learned, where it is given."""
    from rlstudio.experiment.analysis.replan import Trained, planning_agent

    if any(setting.partition("=")[0] == "planner.kind" for setting in settings):
        raise UserError(f"planner.kind: the kind is given by --planner {kind} already; leave it out")
    return planning_agent(
        loaded.agent,
        loaded.cfg,
        [f"kind={kind}", *(setting.removeprefix("planner.") for setting in settings)],
        modeller=lender and Trained(lender.agent, lender.cfg),
        learned=loaded.learned,
        reward_scale=loaded.reward_scale,
    )


def _document(own: _Played, planned: _Played | None) -> dict[str, object]:
    if planned is None:
        return own.evaluation.to_json()
    times = {"milliseconds_per_plan": planned.milliseconds, "milliseconds_without": own.milliseconds}
    with_planner = {**planned.evaluation.to_json(), **times, "plans_at_once": planned.at_once}
    return {**own.evaluation.to_json(), "planner": with_planner}


def _lines(own: _Played, planned: _Played | None, kind: str | None) -> Iterator[str]:
    summary, lengths = own.evaluation.summary, own.evaluation.lengths
    yield f"mean      {text.number(summary.mean)}, 95 % interval {text.interval((summary.ci_low, summary.ci_high))}"
    yield f"IQM       {text.number(summary.iqm)}, median {text.number(summary.median)}"
    yield f"spread    {text.number(summary.std)}, from {text.number(summary.min)} to {text.number(summary.max)}"
    yield f"length    {text.number(sum(lengths) / len(lengths))} steps"
    for key, values in own.evaluation.infos.items():
        yield f"{key:<9} {_given(values)}"
    for team, agents in own.evaluation.teams.items():
        each = ", ".join(f"{name} {_given(returns)}" for name, returns in agents.items())
        yield f"{team:<9} {each}"
    for name, share in own.evaluation.versus.items():
        yield f"{name:<9} {share:.3f}"
    if planned is not None:
        with_planner = planned.evaluation.summary
        bounds = text.interval((with_planner.ci_low, with_planner.ci_high))
        yield f"{kind:<9} {text.number(with_planner.mean)}, 95 % interval {bounds}"
        per_plan = f"{planned.milliseconds:.2f} ms a plan, {own.milliseconds:.3f} ms without"
        yield f"time      {per_plan}; {planned.at_once} planned together"
        if with_planner.mean < summary.mean:
            yield f"worse     than the policy alone: {_better_plans(kind)}"


def _better_plans(kind: str | None) -> str:
    if kind == "guided":
        return "try more sequences (planner.candidates) or a longer planner.horizon"
    return (
        "within planner.horizon the reward says too little; try --planner guided, or a score that says more:"
        " planner.reward=dense (CartPole), planner.value=physics (CartPole, MountainCar, Acrobot)"
    )


def _given(values: Sequence[float]) -> str:
    """The mean of what the episodes gave, and how many gave nothing."""
    from rlstudio.ops.statistics import mean_given

    given = sum(not isnan(value) for value in values)
    if not given:
        return "no episode gave a number"
    return text.number(mean_given(values)) + (f", of {given} of the episodes" if given < len(values) else "")


def _played(agent: Player, cfg: ExperimentConfig, episodes: int, seed: int) -> _Played:
    from statistics import median

    from rlstudio.experiment.judging.evaluate import evaluate as play_episodes
    from rlstudio.experiment.judging.evaluate import with_teams

    timed = _Timed(agent)
    evaluation = play_episodes(timed, cfg.eval_env, episodes=episodes, seed=seed, opponents=cfg.eval.opponents)
    evaluation = with_teams(evaluation, agent)
    return _Played(evaluation, 1e3 * median(timed.seconds), timed.at_once)


def play(
    run: RunOrBundle,
    video: Annotated[
        str,
        typer.Option(
            "--video", "-o", metavar="[FILE]", help="The film, .mp4 or .webp; by default the policy's name, .mp4."
        ),
    ] = "",
    episodes: Annotated[int, typer.Option("--episodes", min=1, max=1000, help="Episodes to play.")] = 1,
    choose: Annotated[
        Literal["all", "best", "worst"], typer.Option("--choose", help="Film all of them, or only the best or worst.")
    ] = "all",
    seed: Seed = None,
    checkpoint: CheckpointChoice = "last",
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
    imports: Imports = None,
    json: Json = False,
) -> None:
    """Film the policy of a run, bundle or version. Needs no display."""
    from rlstudio.experiment.judging.video import SUFFIXES, film
    from rlstudio.storage.output_file import output_path

    if video:
        output_path(video, SUFFIXES)  # refuse a wrong name before the seconds that importing torch takes
    loaded = load_policy(run, checkpoint, runs_dir, imports or ())
    target = Path(video or re.sub(r"[^\w.-]+", "-", loaded.cfg.name) + ".mp4")
    used = loaded.cfg.env.seed if seed is None else seed
    filmed = film(loaded.agent, loaded.cfg.eval_env, target, seed=used, episodes=episodes, choose=choose)
    out = stdout()
    if json:
        document = {"id": loaded.id, "checkpoint": loaded.env_steps, "seed": used, "path": str(filmed.path)}
        out.document({**document, "seeds": filmed.seeds, "returns": filmed.returns, "lengths": filmed.lengths})
        return
    returns = ", ".join(text.number(value) for value in filmed.returns)
    out.line(f"{filmed.path}: {sum(filmed.lengths):,} steps, return {returns}")
