"""`promote`, `rollback` and `models`: versions of trained policies, and which one is in production.

`backup` keeps them, and the store, in one file.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from rlstudio.cli.arguments.options import CheckpointChoice, Imports, Json, RunsDir
from rlstudio.cli.screen import text
from rlstudio.cli.screen.runs_dir import in_runs_dir
from rlstudio.cli.screen.terminal import Cell, Terminal, stdout
from rlstudio.experiment.folder.runs_dir import DEFAULT_RUNS_DIR

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rlstudio.control.registry.releases import Releases

STAGE_STYLES = {"production": "green", "staging": "cyan", "archived": "dim"}

Model = Annotated[str, typer.Option("--model", metavar="NAME", help="The model to add it to as a version.")]
Current = Annotated[
    int | None, typer.Option("--if-current", metavar="V", min=0, help="Only if this version is in production; 0: none.")
]


def promote(
    what: Annotated[
        str, typer.Argument(metavar="WHAT", help="A run, a bundle folder, MODEL:3, MODEL:staging or zoo:NAME.")
    ],
    model: Model = "",
    to: Annotated[Literal["staging", "production"], typer.Option("--to", help="The stage.")] = "staging",
    checkpoint: CheckpointChoice = "last",
    if_current: Current = None,
    margin: Annotated[float, typer.Option("--margin", help="How much better it must be, in return.")] = 0.0,
    alpha: Annotated[float, typer.Option("--alpha", help="Largest error rate of the decision.")] = 0.025,
    budget: Annotated[int, typer.Option("--episodes", min=20, help="Most episodes for each side.")] = 160,
    min_return: Annotated[
        float | None, typer.Option("--min-return", help="The lower bound of its mean return must reach this.")
    ] = None,
    max_std: Annotated[
        float | None, typer.Option("--max-std", min=0, help="Largest standard deviation of its returns.")
    ] = None,
    worst_return: Annotated[
        float | None, typer.Option("--worst-return", help="The mean of its worst tenth of episodes must reach this.")
    ] = None,
    force: Annotated[
        str | None, typer.Option("--force", metavar="REASON", help="Promote without a comparison; the reason is kept.")
    ] = None,
    modules: Imports = None,
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
    json: Json = False,
) -> int:
    """Put a trained policy into a stage; into production only if it is better.

    \b
    rlctl promote last --model cartpole --to production
    rlctl promote cartpole:3 --to production --min-return 475 --if-current 2
    """
    from rlstudio.control.registry.documents import release_document
    from rlstudio.control.registry.promotion import PromotionConfig
    from rlstudio.control.registry.records import Stage
    from rlstudio.control.registry.releases import PromotionRefused, refuse_empty_reason
    from rlstudio.core.config import parse
    from rlstudio.experiment.config.imports import import_modules

    settings = {"margin": margin, "alpha": alpha, "budget": budget, "min_return": min_return}
    cfg = parse(PromotionConfig, {**settings, "max_std": max_std, "worst_return": worst_return}, "promote")
    refuse_empty_reason(force)  # before a version is made
    names = import_modules(modules or (), runs_dir=runs_dir)
    releases = _releases(runs_dir)
    version = releases.version(what, model, checkpoint)
    try:
        release = releases.promote(version, Stage(to), cfg, if_current=if_current, force=force, imports=names)
    except PromotionRefused as refused:
        print_release(
            release_document(refused.version, refused.verdict), json, f"{version.name} stays in stage {version.stage}"
        )
        raise
    document = release_document(release.version, release.verdict)
    print_release(document, json, f"{release.version.name} is in {release.version.stage}")
    return 0


def rollback(
    model: Annotated[str, typer.Argument(metavar="MODEL")],
    if_current: Current = None,
    reason: Annotated[str, typer.Option("--reason", help="Kept in the history.")] = "",
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
    json: Json = False,
) -> None:
    """Put the previous production version back into production."""
    from rlstudio.control.registry.documents import version_document

    version = _releases(runs_dir).rollback(model, if_current=if_current, reason=reason)
    if json:
        stdout().document(version_document(version))
    else:
        stdout().line(f"{version.name} is in production again", "bold")


def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The new file; with --restore the one to read.")],
    restore: Annotated[bool, typer.Option("--restore", help="Restore a backup, where there is no store yet.")] = False,
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
    json: Json = False,
) -> None:
    """Write the store and the registry into one file, while runs go on; or restore them.

    \b
    rlctl backup monday.tar
    rlctl backup monday.tar --restore --runs-dir elsewhere
    """
    from rlstudio.control.registry.backup import restore_backup, write_backup
    from rlstudio.control.workspace import Workspace

    workspace = Workspace(runs_dir)
    report = restore_backup(workspace, file) if restore else write_backup(workspace, file)
    out = stdout()
    if json:
        out.document({**report._asdict(), "path": str(report.path), "restored": restore})
        return
    content = f"{report.runs} runs, {report.bundles} bundles, {text.size(report.size)}, as of {report.created_at}"
    if restore:
        out.line(f"{workspace.state_dir}: restored from {file}: {content}")
        out.line(f"  copy the run folders into {workspace.given_dir}; then see: rlctl ls{in_runs_dir(runs_dir)}")
    else:
        out.line(f"{file}: {content}")
        out.line("  run folders are not in it: copy them too, with any tool")


def models(
    model: Annotated[str | None, typer.Argument(metavar="MODEL", help="One model, with its history.")] = None,
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
    json: Json = False,
) -> None:
    """List the models, or the versions and the history of one."""
    from rlstudio.control.registry.documents import models_document

    releases = _releases(runs_dir)
    versions = releases.versions(model)
    history = [] if model is None else releases.history(model)
    out = stdout()
    document = models_document(versions, history)
    if json:
        out.document(document)
    elif not versions:
        out.line(f"no models yet; make one with: rlctl promote RUN --model NAME{in_runs_dir(runs_dir)}")
    else:
        print_models(out, document)


def print_models(out: Terminal, document: Mapping[str, Any]) -> None:
    rows: list[list[str | Cell]] = [
        [
            version["name"],
            Cell(version["stage"], STAGE_STYLES.get(version["stage"], "")),
            text.age(version["created_at"]),
            version["run_id"] or "-",
            f"{version['step']:,}",
            version["digest"][:12],
        ]
        for version in document["versions"]
    ]
    out.table(["version", "stage", "age", "run", "steps", "digest"], rows)
    if document["history"]:
        out.line()
        out.table(
            ["when", "version", "what", "stage", "by", "why"],
            [[d["at"], str(d["version"]), d["kind"], d["stage"], d["actor"], d["reason"]] for d in document["history"]],
        )


def _releases(runs_dir: Path) -> Releases:
    from rlstudio.control.registry.releases import Releases
    from rlstudio.control.workspace import Workspace

    return Releases(Workspace(runs_dir))


def print_release(document: Mapping[str, Any], json: bool, headline: str) -> None:
    out = stdout()
    if json:
        out.document(document)
        return
    out.line(headline, "bold")
    if document["verdict"] is not None:
        _print_verdict(out, document["verdict"])


def _print_verdict(out: Terminal, verdict: Mapping[str, Any]) -> None:
    """Every number that the decision rests on."""
    settings = verdict["settings"]
    out.line(f"  {verdict['reason']}")
    out.line(f"  candidate    {_earned(verdict['candidate'])}, {verdict['episodes']} episodes")
    if verdict["incumbent"] is not None:
        out.line(f"  production   {_earned(verdict['incumbent'])}, on the same seeds")
    for look in verdict["looks"]:
        bounds = f"{text.number(look['mean'])} {text.interval((look['lower'], look['upper']))}"
        out.line(f"  difference   {bounds} after {look['n']} episodes, at error rate {look['alpha']:.2g}")
    for name, gate in verdict["gates"].items():
        out.line(f"  {name:<12} {text.number(abs(gate['found']))}, wanted {text.number(abs(gate['wanted']))}")
    asked = f"margin {settings['margin']:g}, error rate {settings['alpha']:g}"
    out.line(f"  asked for    {asked}, at most {settings['budget']} episodes; seed {verdict['seed']}", "dim")


def _earned(summary: Mapping[str, float]) -> str:
    mean, bounds = text.number(summary["mean"]), text.interval((summary["ci_low"], summary["ci_high"]))
    return f"{mean}, 95 % interval {bounds}, spread {text.number(summary['std'])}"
