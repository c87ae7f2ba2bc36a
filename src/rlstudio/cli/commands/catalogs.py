"""`algos`, `envs`, `presets`, `schema`, `init` and `check`: what there is to choose from, and whether an env is fit."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rlstudio.cli.arguments import completion
from rlstudio.cli.arguments.options import Imports, Json, PresetEnv
from rlstudio.cli.arguments.starting_files import USUAL_ALGO
from rlstudio.cli.screen.terminal import Terminal, stdout
from rlstudio.core.errors import EnvFault, UserError

if TYPE_CHECKING:
    from rlstudio.experiment.config.fitting import Taken
    from rlstudio.experiment.training.environments import EnvConfig, EnvInfo

SEVERITY_STYLES = {"error": "red", "warning": "yellow", "info": "dim"}


def algos(
    env: Annotated[
        str | None,
        typer.Option(
            "--env", metavar="ENV", help="Only those that fit this environment.", autocompletion=completion.envs
        ),
    ] = None,
    modules: Imports = None,
    json: Json = False,
) -> None:
    """List the algorithms, with the actions and observations that each takes.

    \b
    rlctl algos --env Pendulum-v1
    """
    from rlstudio.control.choices import algo_documents

    if env is not None:
        _fitting(env, modules, json)
        return
    if json:
        stdout().document(algo_documents())
    else:
        print_algos(stdout(), algo_documents())


def print_algos(out: Terminal, algos: Sequence[Mapping[str, Any]]) -> None:
    from rlstudio.experiment.config.fitting import ACTIONS, OBSERVATIONS

    rows = [
        [
            algo["name"],
            algo["package"],
            _kinds(algo["actions"], ACTIONS),
            _kinds(algo["observations"], OBSERVATIONS),
            algo["summary"],
        ]
        for algo in algos
    ]
    out.table(["algo", "package", "actions", "observations", "summary"], rows)
    for algo in algos:
        if algo["needs"]:
            out.line(f"{algo['name']} needs {algo['needs']}")


def _kinds(names: Collection[str], every: tuple[str, ...]) -> str:
    return "any" if set(names) == set(every) else ", ".join(names)


def _fitting(env: str, modules: list[str] | None, json: bool) -> None:
    """What can be used on one environment, and why the others cannot."""
    from rlstudio.core.catalog import ALGOS
    from rlstudio.core.spaces import describe
    from rlstudio.experiment.config.fitting import taken
    from rlstudio.experiment.training.environments import has_equations, spaces_of

    cfg = _env_section(env, [], None, modules)
    spaces = spaces_of(cfg)
    facts = {name: taken(name) for name in ALGOS.names()}
    known = has_equations(cfg.id)
    refusals = {name: of.refusal(spaces, known) for name, of in facts.items()}
    out = stdout()
    if json:
        fits = {name: {"fits": not why, "reason": why} for name, why in refusals.items()}
        out.document([{"name": name, **fits[name], **of._asdict()} for name, of in facts.items()])
        return
    out.line(f"{cfg.id} shows {describe(spaces.observation)} and takes {describe(spaces.action)}")
    rows = [[name, "no" if why else "yes", why or _still_needed(facts[name])] for name, why in refusals.items()]
    out.table(["algo", "fits", "why"], rows)


def _still_needed(of: Taken) -> str:
    return f"needs {of.needs}" if of.needs and not of.needs_equations else ""


def envs(
    filter_text: Annotated[str, typer.Argument(metavar="TEXT", help="Only ids that contain this text.")] = "",
    modules: Imports = None,
    json: Json = False,
) -> None:
    """List the environments."""
    from rlstudio.experiment.config.imports import import_modules
    from rlstudio.experiment.training.environments import known_envs, missing_extras

    import_modules(modules or ())
    matching = [env for env in known_envs() if filter_text.lower() in env.id.lower()]
    out = stdout()
    if json:
        out.document([asdict(env) for env in matching])
        return
    if not matching:
        out.line(f"no environment has {filter_text!r} in its id; `rlctl envs` lists all of them")
        return
    rows = [[env.id, env.origin, "yes" if env.native else "", _extra(env)] for env in matching]
    out.table(["env", "from", "native world", "extra"], rows)
    for extra in [] if filter_text else missing_extras():
        out.line(f"not installed: {extra.example_ids}; {extra.remedy}")


def presets(
    filter_text: Annotated[
        str, typer.Argument(metavar="TEXT", help="Only those with this text in file, algo or env.")
    ] = "",
    json: Json = False,
) -> None:
    """List the experiments that ship with RLStudio."""
    from rlstudio.control.choices import preset_documents

    rows = preset_documents(filter_text)
    out = stdout()
    if json:
        out.document(rows)
    elif rows:
        out.table(["file", "algo", "env", "summary"], [list(row.values()) for row in rows])
    else:
        out.line(f"no preset has {filter_text!r} in its file, algo or env; `rlctl presets` lists all of them")


def _extra(env: EnvInfo) -> str:
    return env.extra if env.installed else f"{env.extra} (not installed)"


def schema(
    name: Annotated[
        str | None, typer.Argument(metavar="ALGO", help="The same as --algo.", autocompletion=completion.algos)
    ] = None,
    algo: Annotated[
        str | None, typer.Option("--algo", help="Only the settings of this algorithm.", autocompletion=completion.algos)
    ] = None,
    text: Annotated[
        bool, typer.Option("--text", help="Print a readable list: field, values, default, meaning.")
    ] = False,
) -> None:
    """Print the JSON schema of an experiment file, for editors; or its settings as a list.

    \b
    rlctl schema --text ppo
    """
    from rlstudio.core.catalog import ALGOS

    chosen = algo or name
    if chosen is not None:
        ALGOS.find(chosen)
    if text:
        from rlstudio.experiment.config.settings import settings_text

        stdout().raw(settings_text(chosen or USUAL_ALGO))
        return
    from rlstudio.experiment.config.schema import experiment_schema

    stdout().document(experiment_schema(chosen))


def init(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write.")] = Path("experiment.yaml"),
    algo: Annotated[str, typer.Option("--algo", help="The algorithm.", autocompletion=completion.algos)] = USUAL_ALGO,
    env: Annotated[
        str,
        typer.Option(
            "--env",
            metavar="ENV",
            help="The environment, by its id or as FILE.py:Class.",
            autocompletion=completion.envs,
        ),
    ] = "CartPole-v1",
    world: Annotated[
        Path | None,
        typer.Option("--world", metavar="FILE.py", help="Write a template of a World in array code instead."),
    ] = None,
    vector_env: Annotated[
        Path | None,
        typer.Option(
            "--vector-env", metavar="FILE.py", help="Write a template of a gymnasium.vector.VectorEnv instead."
        ),
    ] = None,
) -> None:
    """Write a starter experiment file: every setting with its default and its meaning.

    \b
    rlctl init --algo sac --env Pendulum-v1 my.yaml
    rlctl init --world my_world.py
    """
    from rlstudio.cli.arguments import starting_files

    if world is not None:
        starting_files.write_template("world", world, "MyWorld")
    elif vector_env is not None:
        starting_files.write_template("vector_env", vector_env, "MyVectorEnv")
    else:
        starting_files.write_experiment(file, algo, env)


def check(
    env: Annotated[
        str | None,
        typer.Argument(metavar="ENV", help="Its id, or FILE.py:Class; not with -f.", autocompletion=completion.envs),
    ] = None,
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="env.KEY=VALUE", help="Settings, for example env.kwargs.size=5.")
    ] = None,
    file: Annotated[
        str | None,
        typer.Option(
            "--file",
            "-f",
            metavar="FILE",
            help="The environment of this experiment.",
            autocompletion=completion.experiments,
        ),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(
            "--steps", min=1, max=10**9, help="Number of steps to play, instead of some episodes for at most 10 s."
        ),
    ] = None,
    modules: Imports = None,
    json: Json = False,
    named: PresetEnv = None,
) -> None:
    """Test an environment: shapes, bounds, finite numbers, seeding, replay, parameters.

    \b
    rlctl check CartPole-v1 --steps 100000
    rlctl check drone_env.py:Drone env.kwargs.wind=3 env.max_episode_steps=200
    rlctl check CartPole-v1 'env.params.length={uniform: [0.25, 1.5]}'
    rlctl check -f my.yaml
    """
    from rlstudio.experiment.training import environments

    if named is not None:  # as `launch` takes it: then the first argument is a setting
        env, overrides = named, [*([] if env is None else [env]), *(overrides or [])]
    report = environments.check(_env_section(env, overrides or [], file, modules), steps)
    out = stdout()
    if json:
        findings = [asdict(finding) for finding in report.findings]
        played = {"steps": report.steps, "episodes": report.episodes, "seconds": report.seconds}
        out.document({"id": report.id, "ok": report.ok, "played": played, "findings": findings})
    else:
        for finding in report.findings:
            out.line(f"{finding.severity:<8} {finding.text}", SEVERITY_STYLES[finding.severity])
        amount = f"{report.steps:,} steps in {report.episodes:,} whole episodes ({report.seconds:.1f} s)"
        after = f", after {amount} with random actions" if report.steps else ""
        if report.ok:
            out.line(f"{report.id}: fit to train on{after}", "green")
        else:
            out.line(f"played {amount} with random actions")
    if not report.ok:
        raise EnvFault(f"{report.id}: not fit to train on; see the errors above")


def _env_section(env: str | None, overrides: list[str], file: str | None, modules: list[str] | None) -> EnvConfig:
    from rlstudio.cli.arguments.experiments import read_experiment
    from rlstudio.cli.arguments.own_env import import_typed
    from rlstudio.core.parsing.yaml_file import Document
    from rlstudio.experiment.config.env_section import env_section

    if env is not None and "=" in env:  # `rlctl check -f my.yaml env.kwargs.size=5`
        overrides, env = [env, *overrides], None
    if (env is None) == (file is None):
        raise UserError("give an environment, or an experiment with -f FILE")
    _, env, changed = import_typed(modules, env, overrides)
    document = Document({"env": {"id": env}}, "check") if file is None else read_experiment(file)
    return env_section(document, changed)
