"""What there is to choose from, as JSON documents: `rlctl algos`, `envs` and `presets` with `--json`, and the HTTP API.
Nothing here imports what it lists."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rlstudio.core.catalog import ALGOS, PLANNERS, SINKS, Catalog
from rlstudio.core.errors import UserError
from rlstudio.experiment.config.fitting import taken
from rlstudio.experiment.config.presets import described_presets, described_sweeps

Document = dict[str, Any]


def algo_documents() -> list[Document]:
    """The algorithms, with the actions and observations that each takes."""
    return [
        {"name": name, "package": package_of(name), "summary": ALGOS.summary(name), **taken(name)._asdict()}
        for name in ALGOS.names()
    ]


def package_of(algo: str) -> str:
    """The package that offers an algorithm; empty where two do, which its summary then says."""
    try:
        return ALGOS.find(algo).package
    except UserError:
        return ""


def env_documents() -> list[Document]:
    """The environments, also those whose package is not installed."""
    from rlstudio.experiment.training.environments import known_envs

    return [asdict(env) for env in known_envs()]


def preset_name(file: str) -> str:
    """`configs/ppo/cartpole.yaml` is called `ppo/cartpole` where files have no paths."""
    return file.removeprefix("configs/").removesuffix(".yaml")


def catalog_document() -> Document:
    """Everything that an experiment can be made of."""
    return {
        "algos": algo_documents(),
        "envs": env_documents(),
        "planners": part_documents(PLANNERS),
        "sinks": part_documents(SINKS),
        "presets": [{"name": preset_name(preset["file"]), **preset} for preset in preset_documents()],
        "sweeps": [{"name": preset_name(sweep.name), "summary": sweep.summary} for sweep in described_sweeps()],
    }


def part_documents(catalog: Catalog) -> list[Document]:
    """The parts of one kind, ours and those of other packages."""
    return [{"name": name, "summary": catalog.summary(name)} for name in catalog.names()]


def preset_documents(text: str = "") -> list[Document]:
    """The experiments that ship with RLStudio; only those with this text in their file, algorithm or environment."""
    return [
        {"file": preset.name, "algo": preset.algo, "env": preset.env_id, "summary": preset.summary}
        for preset in described_presets()
        if text.lower() in f"{preset.name} {preset.algo} {preset.env_id}".lower()
    ]
