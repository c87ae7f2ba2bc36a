"""`export` and `import`: a trained policy leaves its run, or comes from elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from rlstudio.cli.arguments import completion
from rlstudio.cli.arguments.options import RUN_HELP, CheckpointChoice, Imports, Json, RunsDir
from rlstudio.cli.screen import text
from rlstudio.cli.screen.terminal import stdout
from rlstudio.core.errors import UserError
from rlstudio.experiment.folder.runs_dir import DEFAULT_RUNS_DIR

if TYPE_CHECKING:
    from rlstudio.delivery.bundle import Bundle

Target = Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="The new folder.")]
Formats = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="LIST",
        help="Comma-separated: bundle (weights and spec, always there), onnx, torch-export, torchscript. Without it"
        " all but the last, and onnx only if its packages are installed; for an agent that plans: bundle.",
    ),
]


def export(
    run: Annotated[
        str,
        typer.Argument(
            metavar="RUN",
            help=f"{RUN_HELP[:-1]}; or MODEL:3, MODEL:production, zoo:NAME, which is copied as it is.",
            autocompletion=completion.runs,
        ),
    ],
    output: Target,
    checkpoint: CheckpointChoice = "last",
    team: Annotated[
        str | None, typer.Option("--team", metavar="TEAM", help="For a run with teams: whose policy to export.")
    ] = None,
    format: Formats = None,
    modules: Imports = None,
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
    json: Json = False,
) -> None:
    """Write the policy of a run as a bundle, after comparing its actions with the agent's.

    \b
    rlctl export last -o bundles/cartpole
    rlctl export last --checkpoint best --format onnx,torchscript -o bundles/best
    rlctl export cartpole:production -o bundles/released
    """
    from rlstudio.control.registry.records import is_reference
    from rlstudio.control.workspace import Workspace
    from rlstudio.delivery.zoo import names_zoo

    if is_reference(run) or names_zoo(run):
        if (checkpoint, format, team) != ("last", None, None):
            what = "a policy of the zoo" if names_zoo(run) else "a version"
            raise UserError(f"{run}: {what} is copied as it is; leave --checkpoint, --team and --format out")
        print_bundle(_copied(run, output, runs_dir), json, asked=())
        return
    formats = export_formats(format)
    from rlstudio.experiment.config.imports import import_modules

    import_modules(modules or (), runs_dir=runs_dir)
    folder = Workspace(runs_dir).folder_to_load(run)
    from rlstudio.delivery.export import export_run

    print_bundle(export_run(folder, output, checkpoint=checkpoint, team=team, formats=formats), json, asked=formats)


def import_policy(
    kind: Annotated[Literal["sb3"], typer.Argument(metavar="KIND", help="sb3: a model.zip of Stable-Baselines3.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What to read. Nothing in it is executed.")],
    output: Target,
    activation: Annotated[
        Literal["tanh", "relu"] | None,
        typer.Option("--activation", help="Activation of the hidden layers, if not the algorithm's default."),
    ] = None,
    env: Annotated[
        str | None, typer.Option("--env", metavar="ID", help="Environment it was trained on, for its spaces.")
    ] = None,
    vecnormalize: Annotated[
        Path | None,
        typer.Option("--vecnormalize", metavar="FILE", help="File that VecNormalize.save wrote with it; not executed."),
    ] = None,
    format: Formats = None,
    json: Json = False,
) -> None:
    """Make a bundle from a policy that another library trained.

    \b
    rlctl import sb3 model.zip --env CartPole-v1 -o bundles/cartpole
    rlctl import sb3 a.zip --vecnormalize b.pkl --env Pendulum-v1 -o bundles/old
    """
    from rlstudio.delivery.sb3.importer import import_sb3

    formats = export_formats(format)
    bundle = import_sb3(file, output, activation=activation, env_id=env, formats=formats, vec_normalize=vecnormalize)
    print_bundle(bundle, json, asked=formats)


def _copied(reference: str, output: Path, runs_dir: Path) -> Bundle:
    from rlstudio.control.registry.bundles import named_bundle
    from rlstudio.delivery.bundle import copy_bundle

    bundle = named_bundle(reference, runs_dir)
    assert bundle is not None  # a version or one of the zoo: both are bundles
    return copy_bundle(bundle, output)


def export_formats(given: str | None) -> tuple[str, ...] | None:
    if given is None:
        return None
    return tuple(dict.fromkeys(name.strip() for name in given.split(",") if name.strip()))


def _left_out(bundle: Bundle, asked: tuple[str, ...] | None) -> dict[str, str]:
    """The usual formats that nobody declined and that are not there, each with what to do about it."""
    from rlstudio.delivery.graphs import USUAL_FORMATS, missing_extra

    extra = missing_extra()
    if asked is not None or extra is None or bundle.spec.plan is not None:
        return {}
    missing = [name for name in USUAL_FORMATS if name not in ("bundle", *bundle.spec.formats)]
    return {name: f"needs {extra.module}; {extra.remedy} and export again" for name in missing}


def print_bundle(bundle: Bundle, json: bool, asked: tuple[str, ...] | None) -> None:
    left_out = _left_out(bundle, asked)
    spec, out = bundle.spec, stdout()
    size = sum(file.size for file in bundle.files.values())
    if json:
        origin: dict[str, object] = spec.origin.model_dump(mode="json", exclude={"lineage"})
        facts = {"path": str(bundle.path), "sha256": bundle.sha256, "size": size, "name": spec.name, "algo": spec.algo}
        out.document({**facts, **origin, "formats": spec.formats, "left_out": left_out, "parity": spec.parity})
        return
    out.line(f"{bundle.path}: {spec.name}, {text.size(size)}, sha256 {bundle.sha256[:12]}")
    compared = ", ".join(spec.formats) or "weights"
    out.line(f"  agrees with the agent on {spec.parity['rows']:,} recorded observations: {compared}")
    for name, why in left_out.items():
        out.line(f"  without {name}: {why}", "yellow")
