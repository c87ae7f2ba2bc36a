"""`doctor`: what is wrong with an experiment before it trains, or with what was stored."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rlstudio.cli.arguments.experiments import ExperimentRequest, choose
from rlstudio.cli.arguments.options import ExperimentFile, Imports, Json, Overrides, PresetAlgo, PresetEnv, RunsDir
from rlstudio.cli.arguments.own_env import import_typed
from rlstudio.cli.screen import text
from rlstudio.cli.screen.terminal import Cell, Terminal, stdout
from rlstudio.core.errors import StorageError, UserError
from rlstudio.experiment.folder.runs_dir import DEFAULT_RUNS_DIR

if TYPE_CHECKING:
    from rlstudio.experiment.doctor.advice import Advice
    from rlstudio.experiment.doctor.examine import Diagnosis
    from rlstudio.experiment.doctor.machine import Machine

STYLES = {"error": "red", "warning": "yellow"}


def doctor(
    overrides: Overrides = None,
    file: ExperimentFile = None,
    algo: PresetAlgo = None,
    env: PresetEnv = None,
    trial: Annotated[
        bool, typer.Option("--trial/--no-trial", help="Train for a few seconds, to estimate how long the run takes.")
    ] = True,
    modules: Imports = None,
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
    json: Json = False,
) -> None:
    """Check an experiment before it trains: what to change, and how long it will take.

    Without an experiment, check that the store, all checkpoints, the registry and the installed packages are in order.
    Nothing is written.

    \b
    rlctl doctor -f configs/ppo/cartpole.yaml
    rlctl doctor --algo sac --env Pendulum-v1 env.num_envs=4
    rlctl doctor
    """
    if file is None and algo is None and env is None and not overrides:
        _inspect(runs_dir, json)
        return
    names, env, changed = import_typed(modules, env, overrides, runs_dir)
    cfg = choose(ExperimentRequest(file, algo, env, changed, names)).experiments[0]
    from rlstudio.experiment.doctor.examine import examine
    from rlstudio.experiment.doctor.machine import Machine

    machine = Machine.here(runs_dir)
    diagnosis = examine(cfg, machine) if trial else examine(cfg, machine, trial_seconds=None)
    if json:
        stdout().document(diagnosis.to_json())
    else:
        _print_facts(stdout(), diagnosis, machine)
        _print_advice(stdout(), diagnosis.advice, "nothing to change")
    if not diagnosis.ok:
        raise UserError(f"{cfg.name}: would not train well; change what is named above")


def _inspect(runs_dir: Path, json: bool) -> None:
    from rlstudio.control.inspection.inspect import inspect
    from rlstudio.control.workspace import Workspace

    state = inspect(Workspace(runs_dir))
    if json:
        stdout().document(state.to_json())
    else:
        counts = ", ".join(text.plural(count, name.removesuffix("s")) for name, count in state.looked_at.items())
        stdout().line(f"looked at {counts}" if counts else f"no runs in {runs_dir} yet: looked at the packages", "dim")
        _print_advice(stdout(), state.advice, "all is in order")
    if not state.ok:
        raise StorageError(f"{runs_dir}: not everything that is stored is whole; see above")


def _print_advice(out: Terminal, advice: Sequence[Advice], nothing: str) -> None:
    for each in advice:
        out.pieces([Cell(f"{each.severity:<8} ", STYLES[each.severity]), Cell(each.text)])
        out.pieces([Cell("         "), Cell("-> ", "dim"), Cell(each.remedy, "bold")])
    if not advice:
        out.line(nothing, "green")


def _print_facts(out: Terminal, diagnosis: Diagnosis, machine: Machine) -> None:
    for name, value in _facts(diagnosis, machine):
        out.pieces([Cell(f"{name:<13}", "dim"), Cell(value)])
    for note in diagnosis.notes:
        out.line(f"note: {note}", "dim")


def _facts(diagnosis: Diagnosis, machine: Machine) -> list[tuple[str, str]]:
    from rlstudio.core.spaces import describe

    facts = []
    if diagnosis.spaces is not None:
        shows, takes = describe(diagnosis.spaces.observation), describe(diagnosis.spaces.action)
        facts.append(("environment", f"{diagnosis.env_id} shows {shows} and takes {takes}"))
    if diagnosis.met is not None:
        length = diagnosis.met.mean_length
        ends = "no episode ended" if length is None else f"episodes of {text.plural(round(length), 'step')}"
        facts.append(("random play", f"{ends}, {text.number(1000 * diagnosis.met.seconds_per_step)} ms a step"))
    if diagnosis.row_bytes is not None:
        facts.append(
            ("memory", f"{text.size(diagnosis.row_bytes)} for {diagnosis.row_field}, of {text.size(machine.memory)}")
        )
    if diagnosis.disk_bytes is not None:
        facts.append(("disk", f"{text.size(diagnosis.disk_bytes)} for checkpoints, {text.size(machine.disk)} free"))
    if (expected := diagnosis.forecast) is not None:
        rate = f"{expected.steps_per_second:,.0f} steps/s while it learns"
        facts.append(("speed", f"{rate}, on {text.plural(machine.cores, 'core')} as busy as now"))
        share = f", {text.duration(expected.evaluation_seconds)} of it evaluation"
        facts.append(("time", f"about {text.duration(expected.seconds)} for {expected.env_steps:,} steps{share}"))
    return facts
