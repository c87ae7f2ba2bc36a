"""From the metrics of a run to a sink: each record once, whatever was interrupted, cut back or sent before."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rlstudio.core.catalog import SINKS
from rlstudio.core.errors import UserError
from rlstudio.experiment.config.sections import SinkConfig, TrackingConfig
from rlstudio.experiment.folder.run_folder import RunFolder
from rlstudio.experiment.metrics.description import describe
from rlstudio.experiment.metrics.reader import read_metrics
from rlstudio.experiment.metrics.records import Record
from rlstudio.experiment.metrics.sending.afterwards import send
from rlstudio.experiment.metrics.sending.feed import Feed
from rlstudio.experiment.metrics.sending.sent import FOLDER, unsent
from rlstudio.experiment.metrics.writer import MetricsWriter
from support.measured_runs import measured_run
from support.sink_toys import TOYS, got


@pytest.fixture(autouse=True)
def _toys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SINKS, "_registered", {})
    for name, target in TOYS.items():
        SINKS.register(name, target)


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    return tmp_path / measured_run(tmp_path, "tiny", 3, {})


def write(run_dir: Path, first: int, last: int, ts: float = 1.0, offset: int | None = None) -> int:
    """Records of the steps from `first` to before `last`, after cutting back to `offset`; returns where they end."""
    writer = MetricsWriter(run_dir, rotate_mb=0.001)  # some ten records: positions go over several files
    if offset is not None:
        writer.cut_back(offset)
    for step in range(first, last):
        writer.write([Record(ts, step, "train/loss", step / 3)])
        writer.flush()
    end = writer.offset()
    writer.close()
    return end


def steps(run_dir: Path) -> list[int]:
    return [step for step, _, _ in got(run_dir)]


def test_a_second_sending_sends_what_is_new(run_dir: Path) -> None:
    write(run_dir, 0, 30)
    assert send(run_dir, "kept").records == 30
    assert send(run_dir, "kept").records == 0
    write(run_dir, 30, 37)
    assert send(run_dir, "kept").records == 7
    assert steps(run_dir) == list(range(37))


def test_a_resumed_run_leaves_no_point_twice_where_nothing_can_be_taken_back(run_dir: Path) -> None:
    """It wrote to 30, was killed, went back to its checkpoint at 12 and wrote the same again, at other times."""
    checkpoint = write(run_dir, 0, 12)
    write(run_dir, 12, 30)
    send(run_dir, "kept")
    write(run_dir, 12, 20, ts=2.0, offset=checkpoint)
    assert send(run_dir, "kept").records == 0
    write(run_dir, 20, 41, ts=2.0)
    assert send(run_dir, "kept").records == 11
    assert steps(run_dir) == list(range(41))


def test_after_a_roll_back_the_new_points_come_with_the_number_of_the_attempt(run_dir: Path) -> None:
    checkpoint = write(run_dir, 0, 12)
    write(run_dir, 12, 30)
    send(run_dir, "kept")
    folder = RunFolder(run_dir)
    folder.event("rolled_back", to_env_steps=11, attempt=1)
    folder.close()
    write(run_dir, 12, 15, ts=2.0, offset=checkpoint)
    assert send(run_dir, "kept").records == 3
    assert send(run_dir, "kept").records == 0
    assert [(step, attempt) for step, _, attempt in got(run_dir)][-4:] == [(29, 0), (12, 1), (13, 1), (14, 1)]


@pytest.mark.parametrize("damage", [None, b"{", b'{"marks": 3}'], ids=["kept", "torn", "nonsense"])
def test_a_file_is_cut_back_to_what_the_run_has(run_dir: Path, damage: bytes | None) -> None:
    """Also where it is no longer known what was sent: then all of it is written again."""
    checkpoint = write(run_dir, 0, 12)
    write(run_dir, 12, 30)
    send(run_dir, "csv")
    write(run_dir, 12, 33, ts=2.0, offset=checkpoint)
    if damage is not None:
        (known,) = (run_dir / FOLDER).glob("csv-*.json")
        known.write_bytes(damage)
    send(run_dir, "csv")
    rows = (run_dir / "artifacts/metrics.csv").read_text().splitlines()[1:]
    assert [(float(row.split(",")[0]), int(row.split(",")[1])) for row in rows] == [
        (record.ts, record.step) for record in read_metrics(run_dir)
    ]


def test_a_foreign_run_that_was_deleted_is_sent_anew(run_dir: Path) -> None:
    write(run_dir, 0, 5)
    send(run_dir, "kept")
    (run_dir / "artifacts/got.jsonl").unlink()
    assert send(run_dir, "kept").records == 5
    assert steps(run_dir) == list(range(5))


def test_a_torn_line_waits_for_its_end(run_dir: Path) -> None:
    write(run_dir, 0, 3)
    whole = (run_dir / "metrics.jsonl").read_bytes()
    line = whole.splitlines(keepends=True)[-1]
    (run_dir / "metrics.jsonl").write_bytes(whole + line[:20])
    assert send(run_dir, "kept").records == 3
    (run_dir / "metrics.jsonl").write_bytes(whole + line)
    assert send(run_dir, "kept").records == 1


def test_what_failed_says_so_and_counts_as_unsent(run_dir: Path) -> None:
    write(run_dir, 0, 6)
    with pytest.raises(UserError, match=r"full refused it: OSError: .*No space left on device; sending again goes on"):
        send(run_dir, "full")
    with pytest.raises(UserError, match=r"nobody answers at http://\*\*\*@127.0.0.1:9; sending again") as caught:
        send(run_dir, "gone")
    assert "geheim" not in str(caught.value)
    cfg = SinkConfig.of_kind("full")
    assert unsent(run_dir, cfg) == 6
    with Feed(run_dir, SinkConfig.of_kind("kept")), pytest.raises(UserError, match="by another process"):
        send(run_dir, "kept")


def test_another_destination_is_another_sending() -> None:
    def destination(**settings: object) -> str:
        (cfg,) = TrackingConfig.model_validate({"sinks": [{"kind": "mlflow", **settings}]}).chosen_sinks()
        return cfg.destination()

    assert destination() == destination(artifacts=False)
    assert destination() != destination(uri="http://127.0.0.1:5000") != destination(experiment="other")


def test_secrets_stay_here(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "0123456789abcdef")
    config = {
        "env": {"id": "my/Env-v0", "kwargs": {"api_key": "geheim", "note": "key 0123456789abcdef", "size": 3}},
        "tracking": {"sinks": [{"kind": "mlflow", "uri": "https://me:geheim@example.org"}]},
    }
    (run_dir / "config.yaml").write_text(json.dumps(config))
    folder = RunFolder(run_dir)
    packages = {"google-auth": "2.1"}  # a distribution, and its version
    code = {"rlstudio": {"commit": "c0ffee"}}
    folder.event("lineage", host="here", command=["rlctl", "launch"], code=code, packages=packages)
    folder.close()
    run = describe(run_dir, tags=("paper",))
    sent = f"{run.settings()} {run.facts()} {run.texts()} {run.result()}"
    assert "geheim" not in sent
    assert "0123456789abcdef" not in sent
    assert (run.settings()["env.kwargs.size"], run.settings()["env.kwargs.api_key"]) == (3, "***")
    assert run.lineage["packages"] == packages
    assert (run.label, run.facts()["commit.rlstudio"]) == ("tiny-seed3", "c0ffee")


def test_artifacts_are_files_of_the_run_and_no_links(run_dir: Path) -> None:
    (run_dir / "artifacts/video.mp4").write_bytes(b"film")
    (run_dir / "artifacts/passwd").symlink_to("/etc/passwd")
    write(run_dir, 0, 2)
    send(run_dir, "kept")
    assert set(describe(run_dir).artifacts()) == {"artifacts/video.mp4", "artifacts/got.jsonl"}
