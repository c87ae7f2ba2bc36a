"""Files to begin with, as `rlctl init` writes them: an experiment, or an environment of your own."""

from __future__ import annotations

from pathlib import Path

from rlstudio.cli.screen.terminal import stdout

USUAL_ALGO = "ppo"
SCHEMA_FILE = "rlstudio.schema.json"


def write_experiment(file: Path, algo: str, env: str) -> None:
    """Every setting of the algorithm, and beside it the schema by which editors complete them."""
    import json

    from rlstudio.cli.arguments.own_env import typed_env
    from rlstudio.core.catalog import ALGOS
    from rlstudio.experiment.config.schema import experiment_schema
    from rlstudio.experiment.config.settings import starting_file
    from rlstudio.storage.output_file import write_new

    ALGOS.find(algo)
    typed = typed_env(env)  # nothing is imported: the file is only written
    allowed = "" if typed.module is None else f" --import {typed.module}"
    text = starting_file(algo, typed.id, f"rlctl launch -f {file}{allowed}", SCHEMA_FILE)
    write_new(file, text)
    schema_file = file.parent / SCHEMA_FILE
    if not schema_file.exists():
        write_new(schema_file, json.dumps(experiment_schema(), indent=2) + "\n")
    stdout().line(f"{file}: run it with: rlctl launch -f {file}{allowed}; {schema_file} lets editors complete it")


def write_template(kind: str, file: Path, name: str) -> None:
    """An environment with one class of this name."""
    from rlstudio.experiment.training.environments import template
    from rlstudio.storage.output_file import write_new

    write_new(file, template(kind, file))
    named = f"{file}:{name}"
    stdout().line(f"{file}: try it with: rlctl check {named}; train on it with: rlctl launch --algo ppo --env {named}")
