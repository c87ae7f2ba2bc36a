"""What the page takes documents for is what the server's OpenAPI document says that they are."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from rlstudio.server.api.routers import routers
from rlstudio.server.http.access import Access
from rlstudio.server.http.app import create_app

SOURCES = Path(__file__).parents[2] / "web/src"
TYPES = "".join(
    file.read_text()
    for file in (SOURCES / "api/types.ts", SOURCES / "api/sweeps.ts", *SOURCES.glob("views/*/types.ts"))
)
SCHEMAS = {
    "Run": "RunSchema",
    "RunDetail": "WholeRunSchema",
    "Checkpoint": "CheckpointSchema",
    "MetricName": "MetricNameSchema",
    "MetricNames": "MetricNamesSchema",
    "Series": "CurveSchema",
    "SeriesAnswer": "SeriesSchema",
    "ConfigAnswer": "ConfigSchema",
    "ConfigChange": "ConfigChangeSchema",
    "RunEvent": "EventSchema",
    "LogPart": "LogTextSchema",
    "Artifact": "ArtifactSchema",
    "Comparison": "ComparisonSchema",
    "GroupResult": "GroupResultSchema",
    "GroupCurve": "GroupCurveSchema",
    "Curves": "CurvesSchema",
    "QueueDocument": "QueueSchema",
    "Worker": "WorkerSchema",
    "SweepRow": "SweepRowSchema",
    "Listed": "SweepRowSchema",
    "SweepDocument": "SweepSchema",
    "Trial": "TrialSchema",
    "Version": "VersionSchema",
    "Decision": "DecisionSchema",
    "ModelDocument": "ModelSchema",
}
"""Type of the page -> schema of the server."""

ALSO = {"host"}
"""Fields that every run has and the schema leaves to `additionalProperties`."""


@pytest.fixture(scope="module")
def schemas() -> dict[str, Any]:
    app = create_app(*routers(), title="RLStudio", access=Access(), hosts=())
    found: dict[str, Any] = app.openapi()["components"]["schemas"]
    return found


def needed(interface: str) -> set[str]:
    """Fields that the page takes for granted: those without a question mark."""
    match = re.search(rf"export interface {interface}(?: extends \w+)? {{\n(.*?)\n}}", TYPES, re.DOTALL)
    assert match, f"types.ts has no {interface}"
    return set(re.findall(r"^  (\w+):", match.group(1), re.MULTILINE))


@pytest.mark.parametrize(("interface", "schema"), SCHEMAS.items())
def test_every_field_that_the_page_needs_is_declared(interface: str, schema: str, schemas: dict[str, Any]) -> None:
    assert needed(interface)
    assert needed(interface) - ALSO <= set(schemas[schema]["properties"])
