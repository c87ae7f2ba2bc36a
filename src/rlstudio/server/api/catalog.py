"""What there is to choose from: algorithms, environments, planners, presets, and the schemas of what may be sent."""

from __future__ import annotations

from functools import cache
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Path, Query, Response

from rlstudio.control.choices import algo_documents, env_documents, part_documents, preset_documents
from rlstudio.core.catalog import ALGOS, PLANNERS, SINKS
from rlstudio.core.parsing.yaml_file import read_text
from rlstudio.experiment.config.presets import presets, shipped_name
from rlstudio.experiment.config.schema import experiment_schema
from rlstudio.server.api.answers import Document, answer
from rlstudio.server.api.schemas import CatalogAnswer, PresetAnswer, SchemaAnswer
from rlstudio.server.http.callers import Reader
from rlstudio.server.http.problems import RequestRefused

router = APIRouter(tags=["catalog"])


@router.get("/catalog", response_model=CatalogAnswer)
def catalog(caller: Reader) -> Response:
    """Everything that an experiment can be made of."""
    return answer(_catalog())


@cache
def _catalog() -> Document:
    return {
        "algos": algo_documents(),
        "envs": env_documents(),
        "planners": part_documents(PLANNERS),
        "sinks": part_documents(SINKS),
        "presets": [{"name": name_of(preset["file"]), **preset} for preset in preset_documents()],
    }


def name_of(file: str) -> str:
    """`configs/ppo/cartpole.yaml` is called `ppo/cartpole` here."""
    return file.removeprefix("configs/").removesuffix(".yaml")


def preset_text(name: str) -> str:
    """The file of a preset; names are compared, and never used as a path."""
    for path in presets():
        if name_of(shipped_name(path)) == name:
            return path.read_text()
    raise RequestRefused(HTTPStatus.NOT_FOUND, f"preset {name[:100]!a}: there is none; GET /api/v1/catalog lists them")


@router.get("/presets/{name:path}", response_model=PresetAnswer)
def preset(caller: Reader, name: Annotated[str, Path(max_length=200)]) -> Response:
    """An experiment that ships with RLStudio."""
    text = preset_text(name)
    return answer({"name": name, "yaml": text, "config": read_text(text, name).data})


@router.get("/schema", response_model=SchemaAnswer)
def schema(caller: Reader, algo: Annotated[str | None, Query(max_length=100)] = None) -> Response:
    """The JSON schema of an experiment, for one algorithm or for all, as `rlctl schema`."""
    if algo is not None:
        ALGOS.find(algo)
    return answer(_schema(algo))


@cache
def _schema(algo: str | None) -> Document:
    return experiment_schema(algo)


@router.get("/schema/sweep", response_model=SchemaAnswer)
def sweep_schema(caller: Reader) -> Response:
    """The JSON schema of a sweep; its `experiment` is one of `/schema`."""
    from rlstudio.control.sweep.config import SweepConfig

    return answer(SweepConfig.model_json_schema())
