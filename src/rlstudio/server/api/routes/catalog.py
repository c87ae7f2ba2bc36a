"""What there is to choose from: algorithms, environments, planners, presets, and the schemas of what may be sent."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Path, Query, Response

from rlstudio.control.choices import preset_name
from rlstudio.core.catalog import ALGOS
from rlstudio.core.parsing.yaml_file import read_text
from rlstudio.experiment.config.presets import shipped_files, shipped_name
from rlstudio.server.api.answers import answer
from rlstudio.server.api.schemas import CatalogSchema, PresetSchema, SchemaSchema
from rlstudio.server.api.service import Served
from rlstudio.server.http.callers import Reader
from rlstudio.server.http.problems import RequestRefused

router = APIRouter(tags=["catalog"])


@router.get("/catalog", response_model=CatalogSchema)
def catalog(caller: Reader, service: Served) -> Response:
    """Everything that an experiment can be made of here."""
    return answer(service.described("catalog"))


def preset_text(name: str) -> str:
    """The file of a preset; names are compared, and never used as a path."""
    for path in shipped_files():
        if preset_name(shipped_name(path)) == name:
            return path.read_text()
    raise RequestRefused(
        HTTPStatus.NOT_FOUND, f"preset {name[:100]!a}: there is no such preset; GET /api/v1/catalog lists them"
    )


@router.get("/presets/{name:path}", response_model=PresetSchema)
def preset(caller: Reader, name: Annotated[str, Path(max_length=200)]) -> Response:
    """An experiment, or a sweep, that ships with RLStudio."""
    text = preset_text(name)
    return answer({"name": name, "yaml": text, "config": read_text(text, name).data})


@router.get("/schema", response_model=SchemaSchema)
def schema(caller: Reader, service: Served, algo: Annotated[str | None, Query(max_length=100)] = None) -> Response:
    """The JSON schema of an experiment, for one algorithm or for all, as `rlctl schema`."""
    if algo is not None:
        ALGOS.find(algo)
    return answer(service.described("schema", algo=algo))


@router.get("/schema/sweep", response_model=SchemaSchema)
def sweep_schema(caller: Reader) -> Response:
    """The JSON schema of a sweep; its `experiment` is one of `/schema`."""
    from rlstudio.control.sweep.config import SweepConfig

    return answer(SweepConfig.model_json_schema())
