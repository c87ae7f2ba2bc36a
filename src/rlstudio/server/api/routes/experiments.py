"""Experiments: check one, or launch it."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Any

from fastapi import APIRouter, Response
from pydantic import BaseModel, ConfigDict, Field

from rlstudio.server.api.answers import answer, run_row
from rlstudio.server.api.routes.catalog import preset_text
from rlstudio.server.api.schemas import LaunchedSchema, ValidatedSchema
from rlstudio.server.api.service import Served
from rlstudio.server.http.callers import Actor
from rlstudio.server.http.problems import RequestRefused

MOST_SEEDS = 1000
MOST_OVERRIDES = 200
LONGEST_TEXT = 1 << 20
LONGEST_OVERRIDE = 2000

router = APIRouter(tags=["experiments"])


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ExperimentBody(Body):
    """One of `config`, `yaml` and `preset`; `overrides` change it as on the command line."""

    config: dict[str, Any] | None = Field(None, description="An experiment, as in a file.")
    yaml: str | None = Field(None, max_length=LONGEST_TEXT, description="The text of a file.")
    preset: str | None = Field(None, max_length=200, description="The name of one that ships with RLStudio.")
    overrides: list[str] = Field([], max_length=MOST_OVERRIDES, description="For example train.lr=1e-3.")
    seed: int | None = Field(None, ge=0, le=2**32 - 1)
    name: str | None = Field(None, max_length=64)
    seeds: int = Field(1, ge=1, le=MOST_SEEDS, description="So many runs, each with the next seed.")
    priority: int | None = Field(None, ge=-1000, le=1000)
    validate_only: bool = Field(False, description="Only say what is wrong with it.")

    def asked(self) -> dict[str, Any]:
        """As the workbench takes it."""
        given = self.model_dump(include={"overrides", "seed", "name", "seeds", "priority"})
        return {"text": given_text(self.config, self.yaml, self.preset), **given}


def given_text(config: dict[str, Any] | None, yaml: str | None, preset: str | None) -> str:
    """The one of them that is given, as YAML."""
    given = [name for name, value in (("config", config), ("yaml", yaml), ("preset", preset)) if value is not None]
    if len(given) != 1:
        message = "give one of config, yaml and preset" + (f", not {' and '.join(given)}" if given else "")
        field = given[-1] if given else "config"
        raise RequestRefused(HTTPStatus.UNPROCESSABLE_ENTITY, message, [{"field": field, "message": message}])
    if preset is not None:
        return preset_text(preset)
    # JSON is YAML: one reader, with one set of limits, for both.
    return yaml if yaml is not None else json.dumps(config, ensure_ascii=False)


@router.post(
    "/experiments",
    status_code=HTTPStatus.CREATED,
    response_model=LaunchedSchema,
    responses={200: {"model": ValidatedSchema, "description": "validate_only: what is wrong with it, if anything."}},
)
def launch(caller: Actor, service: Served, body: ExperimentBody) -> Response:
    """Put an experiment into the queue, once for each seed. With an Idempotency-Key the same request again gives the
    same runs, also where the server was killed before it could answer."""
    if body.validate_only:
        return answer(service.workbench.do("validate", body.asked()))
    ids = service.workbench.do("launch", {**body.asked(), "key": caller.key or None})
    references = service.listing.references()
    runs = [run_row(service.listing.find(run_id), references) for run_id in ids]
    location = {"Location": f"/api/v1/runs/{ids[0]}"}
    return answer({"runs": runs, "run": runs[0]}, HTTPStatus.CREATED, etag=runs[0]["etag"], headers=location)
