"""The OpenAPI document, asked by Schemathesis: no server error, nothing that it does not say, nothing read without a
token. A few examples of each route here, many among the slow tests."""

from __future__ import annotations

import re

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from rlstudio.control.workspace import Workspace
from rlstudio.server.api.routers import routers
from support.api_world import api_over
from support.http_app import ACT, HOST, made
from support.reading_world import fill

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
STARTING = re.compile(
    r"GET .*/(catalog|schema|best)|POST .*/(experiments|sweeps|resume|fork|export|promote)$|.*/stream$"
)
"""Routes that start a process, and the one that does not end: the quick suite asks them in tests of their own."""


def operations(app):
    schema = schemathesis.openapi.from_dict(app.openapi())
    schema.app = app
    schema.config.update(base_url=f"http://{HOST}")
    return {operation.ok().label: operation.ok() for operation in schema.get_all_operations()}


LABELS = sorted(label for label in operations(made(*routers())) if not label.endswith("/stream"))


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """The operations of an application that has runs of every kind."""
    runs_dir = tmp_path_factory.mktemp("schemathesis") / "runs"
    workspace = Workspace(runs_dir)
    fill(workspace)
    workspace.store.database.close()
    with api_over(runs_dir) as api:
        yield operations(api.app)


def ask_many(world, label, examples):
    operation = world[label]

    @given(case=operation.as_strategy())
    @settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def keeps_to_its_document(case):
        answer = case.call(headers={"Authorization": f"Bearer {ACT}"})
        case.validate_response(answer, checks=CHECKS)
        stranger = case.call(headers={"Authorization": "Bearer nobody"})
        assert stranger.status_code == 401 or case.path == "/api/v1/health"

    keeps_to_its_document()


@pytest.mark.parametrize("label", [label for label in LABELS if not STARTING.search(label)])
def test_a_route_keeps_to_its_document(world, label):
    ask_many(world, label, 4)


@pytest.mark.slow
@pytest.mark.parametrize("label", LABELS)
def test_a_route_keeps_to_its_document_over_many_examples(world, label):
    ask_many(world, label, 100)
