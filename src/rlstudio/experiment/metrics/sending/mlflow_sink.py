"""MLflow: a store in a file of the runs folder, or a server. Points go there by `MlflowClient.log_batch` alone.

A run of MLflow belongs to a run here by its tag `rlstudio.run_id`: it is looked up by that, so that a resumed run goes
on in the same one. MLflow takes no point back; after a roll-back the metric `rlstudio/attempt` tells them apart.
"""

from __future__ import annotations

import logging
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from rlstudio.core.errors import UserError
from rlstudio.core.host.extras import Extra
from rlstudio.core.run_state import OWNED, RunState
from rlstudio.experiment.config.sections import SinkConfig
from rlstudio.experiment.lineage.secrets import masked_text
from rlstudio.experiment.metrics.description import RunDescription, plain_name
from rlstudio.experiment.metrics.records import Record

MOST_METRICS, MOST_PARAMS, MOST_TAGS = 1000, 100, 100
"""What MLflow takes in one request."""

LONGEST_PARAM, LONGEST_TAG = 6000, 5000
RUN_TAG = "rlstudio.run_id"
_QUIET = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",  # `rlctl send --json` prints one document, and its link is in it
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",  # a feed that fails is tried again anyway
}
LOOPBACK = ("localhost", "127.0.0.1", "::1")
_STATES = {RunState.COMPLETED: "FINISHED", RunState.FAILED: "FAILED"}


class MlflowConfig(SinkConfig):
    uri: str = ""
    """Address of the server or store; by default MLFLOW_TRACKING_URI, else `mlflow.db` in the runs folder. Give a
    password in MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or a token in MLFLOW_TRACKING_TOKEN, not here."""

    experiment: str = Field("rlstudio", min_length=1)
    """The MLflow experiment of the run; created if there is none."""

    artifacts: bool = True
    """Also send files: config, origin, and the artifacts of the run up to 64 MB each."""

    checkpoint: bool = False
    """Also send the newest checkpoint when the run ends."""

    @field_validator("uri")
    @classmethod
    def _address(cls, value: str) -> str:
        # MLflow takes any other text for a folder, and then refuses folders in many words.
        if value and not re.match(r"(https?|sqlite|postgresql|mysql|mssql)(\+\w+)?://|(file|databricks|uc)\b", value):
            examples = "http://127.0.0.1:5000 or sqlite:///mlflow.db"
            raise ValueError(f"expected the address of a server or database, such as {examples}, got {value!a}")
        return value

    def destination(self) -> str:
        return f"{self.uri or os.environ.get('MLFLOW_TRACKING_URI', '')} {self.experiment}"


class MlflowSink:
    """Runs of MLflow, on a server or in a file."""

    Config = MlflowConfig
    append_only = True
    extra = Extra("mlflow", "mlflow")

    def __init__(self, cfg: MlflowConfig, run_dir: Path) -> None:
        for name, value in _QUIET.items():
            os.environ.setdefault(name, value)
        self.extra.load("tracking", "mlflow")
        for name in ("mlflow", "alembic"):  # what it says of its tables and attempts; that it failed is raised
            logging.getLogger(name).setLevel(logging.ERROR)
        from mlflow.entities import Metric, Param, RunTag
        from mlflow.tracking import MlflowClient

        self._cfg, self._entities = cfg, (Metric, Param, RunTag)
        above = run_dir.absolute().parent
        uri = cfg.uri or os.environ.get("MLFLOW_TRACKING_URI", "") or f"sqlite:///{above / 'mlflow.db'}"
        self._client = MlflowClient(tracking_uri=uri)
        place = str(above / "mlflow.artifacts") if uri.startswith("sqlite:") and not cfg.uri else None
        experiment = self._experiment(place)
        existing = self._client.search_runs([experiment], f"tags.`{RUN_TAG}` = '{run_dir.name}'", max_results=1)
        self.is_new = not existing
        run = existing[0] if existing else self._client.create_run(experiment, tags={RUN_TAG: run_dir.name})
        if cfg.artifacts:
            _refuse_files_here(uri, str(run.info.artifact_uri))
        self._run, self._params = str(run.info.run_id), dict(run.data.params)
        self.link = f"{masked_text(uri)} run {self._run}"
        self._count = 0

    def _experiment(self, place: str | None) -> str:
        from mlflow.exceptions import MlflowException

        known = self._client.get_experiment_by_name(self._cfg.experiment)
        if known is None:
            try:
                return str(self._client.create_experiment(self._cfg.experiment, artifact_location=place))
            except MlflowException:  # another run made it meanwhile
                known = self._client.get_experiment_by_name(self._cfg.experiment)
                if known is None:
                    raise
        return str(known.experiment_id)

    def describe(self, run: RunDescription, attempt: int) -> None:
        client, (metric, param, tag) = self._client, self._entities
        client.update_run(self._run, status="RUNNING", name=run.label)
        settings = {plain_name(name): str(value)[:LONGEST_PARAM] for name, value in run.settings().items()}
        new = [param(name, value) for name, value in settings.items() if name not in self._params]
        for first in range(0, len(new), MOST_PARAMS):
            client.log_batch(self._run, params=new[first : first + MOST_PARAMS])
        # A parameter of MLflow never changes; that of a run can, where it was made longer.
        changed = {n: value for n, value in settings.items() if self._params.get(n, value) != value}
        tags: Mapping[str, object] = {
            **{f"rlstudio.{name}": value for name, value in run.facts().items()},
            **{f"rlstudio.changed.{name}": value for name, value in changed.items()},
            **({"rlstudio.tags": " ".join(run.tags)} if run.tags else {}),
            **{f"tag.{name}": "true" for name in run.tags},
        }
        entries = [tag(plain_name(name), str(value)[:LONGEST_TAG]) for name, value in tags.items()]
        for first in range(0, len(entries), MOST_TAGS):
            client.log_batch(self._run, tags=entries[first : first + MOST_TAGS])
        if attempt:
            now, step = int(1000 * run.created()), run.status.env_steps
            client.log_batch(self._run, metrics=[metric("rlstudio/attempt", float(attempt), now, step)])
        if self._cfg.artifacts:
            with tempfile.TemporaryDirectory() as folder:
                for name, text in run.texts().items():
                    (Path(folder) / name).write_text(text)
                client.log_artifacts(self._run, folder)

    def write(self, records: Sequence[Record]) -> None:
        metric: Any = self._entities[0]
        points = [metric(plain_name(r.key), r.value, int(1000 * r.ts), r.step) for r in records]
        for first in range(0, len(points), MOST_METRICS):
            self._client.log_batch(self._run, metrics=points[first : first + MOST_METRICS])
        self._count += len(records)

    def flush(self) -> None:
        """Each request is answered when it is stored."""

    def offset(self) -> int:
        return self._count

    def cut_back(self, offset: int) -> int:
        """Nothing is taken back there."""
        self._count = offset
        return 0

    def finish(self, run: RunDescription) -> None:
        tag: Any = self._entities[2]
        values = {f"rlstudio.{name}": value for name, value in {**run.facts(), **run.result()}.items()}
        self._client.log_batch(self._run, tags=[tag(name, str(value)) for name, value in values.items()])
        if self._cfg.artifacts:
            for name, path in run.artifacts(self._cfg.checkpoint).items():
                self._client.log_artifact(self._run, str(path), name.rpartition("/")[0])
        if run.status.state not in OWNED:  # a run that still trains goes on there
            self._client.set_terminated(self._run, status=_STATES.get(run.status.state, "KILLED"))

    def close(self) -> None:
        """There is nothing to close: each request stands alone."""


def _refuse_files_here(uri: str, files: str) -> None:
    """A server says where its client writes files. One elsewhere must not name a folder of this machine."""
    server, place = urlsplit(uri), urlsplit(files)
    if server.scheme in ("http", "https") and server.hostname not in LOOPBACK and place.scheme in ("", "file"):
        raise UserError(
            f"tracking: mlflow: the server {masked_text(uri)} says that files belong into {place.path}, a folder of"
            " this machine; set artifacts: false, or let it take them itself (mlflow server --serve-artifacts)"
        )
