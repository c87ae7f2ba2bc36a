"""Runs that send to the real libraries, read back with the libraries' own readers; and sinks that hang, refuse or are
full, which the run does not notice."""

from __future__ import annotations

import errno
import json
import math
import socket
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from rlstudio.core.catalog import SINKS
from rlstudio.core.errors import StorageError, UserError
from rlstudio.core.host.extras import Extra
from rlstudio.core.run_state import RunState
from rlstudio.experiment.config.experiment import ExperimentConfig
from rlstudio.experiment.folder.run_folder import RunFolder
from rlstudio.experiment.metrics.indexed.index import read_series
from rlstudio.experiment.metrics.reader import read_metrics
from rlstudio.experiment.metrics.sending import feeder
from rlstudio.experiment.metrics.sending.afterwards import send
from rlstudio.experiment.metrics.sending.mlflow_sink import MlflowConfig, MlflowSink
from rlstudio.experiment.metrics.sending.sent import Sent, SentFile
from support.deadlines import PATIENCE
from support.sessions import resume, start
from support.sink_toys import SILENT_SERVER, TOYS, got, wandb_records
from support.tiny_runs import config, run_to_the_end

pytestmark = pytest.mark.real_process


def experiment(*sinks: object, finish_seconds: float = PATIENCE) -> ExperimentConfig:
    return config("ppo", "native", tracking={"sinks": list(sinks), "finish_seconds": finish_seconds})


def failures(run: RunFolder) -> dict[str, dict[str, object]]:
    """The events of sinks, by sink; one each."""
    events = [event for event in run.events() if event["kind"] == "sink_failed"]
    assert len({event["sink"] for event in events}) == len(events)
    return {str(event["sink"]): event for event in events}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return run_to_the_end(experiment(), tmp_path_factory.mktemp("plain"))


def left_and_resumed(runs_dir: Path, *sinks: object) -> RunFolder:
    """A run that was left in the midst of an epoch and resumed."""
    with start(experiment(*sinks), runs_dir) as session:
        for tick in session:
            if tick.epoch == 5 and tick.report is None:
                break
    with resume(session.folder) as session:
        for _ in session:
            pass
    assert failures(session.folder) == {}
    return session.folder


@pytest.fixture(scope="module")
def sent(tmp_path_factory: pytest.TempPathFactory, plain: RunFolder) -> RunFolder:
    """While it trained, to TensorBoard; afterwards to the two whose import takes long."""
    run = left_and_resumed(tmp_path_factory.mktemp("sent"), "csv", "tensorboard")
    assert run.read_status().state_hash == plain.read_status().state_hash
    for kind in ("mlflow", "wandb"):
        assert send(run.path, kind, tags=("paper",)).records == len(list(read_metrics(run.path)))
    assert send(run.path, "mlflow", tags=("paper",)).records == 0  # to begin with W&B once more takes seconds
    return run


@pytest.mark.slow
def test_all_sinks_at_once_while_it_trains(tmp_path: Path, plain: RunFolder) -> None:
    run = left_and_resumed(tmp_path, "csv", "tensorboard", "mlflow", "wandb")
    assert run.read_status().state_hash == plain.read_status().state_hash
    for check in (
        test_tensorboard_has_every_curve_once_and_the_hyperparameters,
        test_mlflow_has_every_point_once_with_config_tags_and_files,
        test_wandb_has_every_row_once_in_its_offline_files,
    ):
        check(run)


def test_tensorboard_has_every_curve_once_and_the_hyperparameters(sent: RunFolder) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.plugins.hparams import metadata

    events = EventAccumulator(str(sent.path / "artifacts/tensorboard/tiny-seed7"), size_guidance={"scalars": 0})
    events.Reload()
    series = read_series(sent.path)
    assert set(events.Tags()["scalars"]) == set(series)
    for key, (steps, values) in series.items():
        points = events.Scalars(key)
        assert [point.step for point in points] == steps
        for point, value in zip(points, values, strict=True):
            assert point.value == pytest.approx(value, rel=1e-6, nan_ok=True)
    assert {"rlstudio/config.yaml", "rlstudio/lineage.json"} <= set(events.Tags()["tensors"])
    content = events.SummaryMetadata(metadata.SESSION_START_INFO_TAG).plugin_data.content
    assert metadata.parse_session_start_info_plugin_data(content).hparams["train.batch_size"].number_value == 32


def test_mlflow_has_every_point_once_with_config_tags_and_files(sent: RunFolder) -> None:
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=f"sqlite:///{sent.path.parent / 'mlflow.db'}")
    experiment_id = client.get_experiment_by_name("rlstudio").experiment_id
    (run,) = client.search_runs([experiment_id])
    assert (run.info.run_name, run.info.status) == ("tiny-seed7", "FINISHED")
    assert run.data.params["train.batch_size"] == "32"
    status = sent.read_status()
    tags = {name: run.data.tags[f"rlstudio.{name}"] for name in ("run_id", "state", "config_hash", "state_hash")}
    assert tags == {
        "run_id": sent.id,
        "state": "COMPLETED",
        "config_hash": status.config_hash,
        "state_hash": status.state_hash,
    }
    series = read_series(sent.path)
    assert set(run.data.metrics) == set(series)
    for key in ("train/kl", "eval/return_mean", "time/steps_per_second"):
        steps, values = series[key]
        points = client.get_metric_history(run.info.run_id, key)
        assert sorted((point.step, point.value) for point in points) == sorted(zip(steps, values, strict=True))
    assert {file.path for file in client.list_artifacts(run.info.run_id)} >= {
        "config.yaml",
        "lineage.json",
        "artifacts",
    }


def test_wandb_has_every_row_once_in_its_offline_files(sent: RunFolder) -> None:
    rows: dict[str, list[tuple[float, float]]] = defaultdict(list)
    ids, settings = set(), {}
    for path in sorted((sent.path / "artifacts/wandb").rglob("*.wandb")):  # one for each session
        for record in wandb_records(path):
            if record.HasField("run"):
                ids.add((record.run.run_id, record.run.display_name, record.run.run_group))
            for item in record.config.update:
                settings[item.key] = json.loads(item.value_json)
            row = {"/".join(item.nested_key) or item.key: item.value_json for item in record.history.item}
            step = row.pop("env_steps", None)
            for key, value in row.items():
                if not key.startswith("_"):
                    rows[key].append((json.loads(step), json.loads(value)))
    assert {run_id for run_id, _, _ in ids} == {sent.id}
    assert {group for _, _, group in ids} == {"tiny"}
    assert settings["train"]["batch_size"] == 32
    assert settings["rlstudio"]["run_id"] == sent.id
    series = read_series(sent.path)
    assert set(rows) == set(series)
    for key, (steps, values) in series.items():
        for (step, value), expected in zip(rows[key], zip(steps, values, strict=True), strict=True):
            assert step == expected[0]
            assert value == expected[1] or (math.isnan(value) and math.isnan(expected[1]))


@pytest.fixture
def silent_server() -> Iterator[socket.socket]:
    """Accepts connections, by the system's backlog, and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(PATIENCE)
        yield server


@pytest.fixture
def toys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SINKS, "_registered", {})
    for name, target in TOYS.items():
        SINKS.register(name, target)


@pytest.mark.parametrize("hanging", ["silent", pytest.param("mlflow", marks=pytest.mark.slow)])
@pytest.mark.usefixtures("toys")
def test_a_run_does_not_notice_sinks_in_trouble(
    hanging: str, silent_server: socket.socket, tmp_path: Path, plain: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One hangs, one refuses, one has no space; a fourth gets everything."""
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "geheim-token")
    uri = f"http://127.0.0.1:{silent_server.getsockname()[1]}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    monkeypatch.setenv(SILENT_SERVER, uri)
    cfg, held = experiment(hanging, "gone", "full", "kept", finish_seconds=3.0), []
    with start(cfg, tmp_path) as session:
        for tick in session:
            if tick.report is not None and tick.epoch == 11:
                held.append(silent_server.accept()[0])  # it hangs now, and will until it is ended
                wait_for(session.folder.path / "artifacts/got.jsonl")
    run = session.folder
    assert (session.status.state, session.status.state_hash) == (RunState.COMPLETED, plain.read_status().state_hash)
    events = failures(run)
    events.pop("kept", None)  # on a slow machine it may be late, and gets the rest below
    assert set(events) == {hanging, "gone", "full"}
    assert events[hanging]["reason"] == "not done within tracking.finish_seconds=3"
    send(run.path, "kept")
    assert [record.step for record in read_metrics(run.path)] == [step for step, _, _ in got(run.path)]
    assert events[hanging]["unsent"] == len(got(run.path))
    assert "No space left" in str(events["full"]["reason"])
    assert f"rlctl send {run.id} --to gone" in str(events["gone"]["remedy"])
    assert "geheim" not in run.path.joinpath("events.jsonl").read_text()
    for connection in held:
        connection.close()


def wait_for(path: Path) -> None:
    """Until the sink that works has got something."""
    deadline = time.monotonic() + PATIENCE
    while not (path.exists() and path.stat().st_size):
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.usefixtures("toys")
def test_the_process_ends_when_the_run_is_gone(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-m", feeder.__name__], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    order = {"run_dir": str(tmp_path), "sinks": ["gone"], "registered": SINKS.registered()}
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(order).encode() + b"\n")
    process.stdin.flush()
    assert json.loads(process.stdout.readline())["sink"] == "gone"  # it works, and would try again
    process.stdin.close()
    assert process.wait(PATIENCE) == 0
    process.stdout.close()


@pytest.mark.usefixtures("toys")
def test_a_process_that_cannot_be_started_is_an_event(
    tmp_path: Path, plain: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr("rlstudio.experiment.metrics.sending.process.subprocess.Popen", refused)
    run = run_to_the_end(experiment("kept"), tmp_path)
    assert run.read_status().state_hash == plain.read_status().state_hash
    assert failures(run)["kept"]["reason"] == "its process cannot be started: Resource temporarily unavailable"


def test_a_missing_library_is_one_line_before_the_run_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MlflowSink, "extra", Extra("mlflow", "mlflow_that_is_not_there"))
    message = r'^tracking: the sink mlflow needs the package \w+; run `pip install "mlflow-skinny'
    with pytest.raises(UserError, match=message):
        start(experiment("mlflow"), tmp_path)


def test_a_server_elsewhere_names_no_folder_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """MLflow's client writes files where the server says, into any folder of whoever runs it."""

    class Hostile:
        def __init__(self, tracking_uri: str) -> None:
            self.made = SimpleNamespace(run_id="1", artifact_uri=str(tmp_path))

        def get_experiment_by_name(self, name: str) -> SimpleNamespace:
            return SimpleNamespace(experiment_id="1")

        def search_runs(self, *_: object, **__: object) -> list[object]:
            return []

        def create_run(self, *_: object, **__: object) -> SimpleNamespace:
            return SimpleNamespace(info=self.made, data=SimpleNamespace(params={}))

    monkeypatch.setattr("mlflow.tracking.MlflowClient", Hostile)
    run = tmp_path / "20260101-000000000-run-0001"
    with pytest.raises(UserError, match=r"files belong into .*, a folder of this machine; set artifacts: false"):
        MlflowSink(MlflowConfig(kind="mlflow", uri="http://203.0.113.7"), run)
    MlflowSink(MlflowConfig(kind="mlflow", uri="http://203.0.113.7", artifacts=False), run)
    MlflowSink(MlflowConfig(kind="mlflow", uri="http://127.0.0.1:5000"), run)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"records": 1e999}', '{"marks": [[1e999, 0, 0, 0]]}', "7", "{"])
def test_what_a_sink_has_is_read_or_nothing(tmp_path: Path, text: str) -> None:
    file = SentFile(tmp_path, MlflowConfig(kind="mlflow"))
    (tmp_path / f"{file.name}.json").parent.mkdir(parents=True)
    (tmp_path / f"{file.name}.json").write_text(text)
    assert file.read() == Sent()


@pytest.mark.parametrize("link", ["artifacts", "artifacts/sinks"])
def test_nothing_is_made_where_a_link_leads(tmp_path: Path, link: str) -> None:
    run, outside = tmp_path / "run", tmp_path / "outside"
    (run / link).parent.mkdir(parents=True)
    outside.mkdir()
    (run / link).symlink_to(outside)
    with pytest.raises(StorageError, match=rf"{link}: is no real folder"):
        SentFile(run, MlflowConfig(kind="mlflow")).lock()
    assert list(outside.iterdir()) == []
