"""The display: right numbers, plain lines where nobody looks, and never a reason for a run to end."""

from __future__ import annotations

import errno
import io
import math
import os
import subprocess
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from rlstudio.cli.app import main
from rlstudio.cli.screen.live.panel import LivePanel
from rlstudio.cli.screen.live.progress import Progress
from rlstudio.cli.screen.live.redraw import Redraw
from rlstudio.cli.screen.terminal import Terminal
from rlstudio.core.errors import StorageError
from rlstudio.core.host.process import PULSE
from rlstudio.experiment.metrics.sending.process import SinkProcess
from rlstudio.experiment.training.loop import Report, Tick
from rlstudio.storage.jsonl import LineWriter
from support.cli_scenario import Rlctl


def progress_at(steps: int = 0, epochs: int = 10) -> Progress:
    session: Any = SimpleNamespace(
        cfg=SimpleNamespace(train=SimpleNamespace(planned_steps=1000 * epochs, epochs=epochs)),
        status=SimpleNamespace(env_steps=steps, epoch=steps // 1000),
        runtime=SimpleNamespace(run_envs=8),
    )
    return Progress(session)


def report(epoch: int, **metrics: float) -> Report:
    values = {name.replace("__", "/"): value for name, value in metrics.items()}
    return Report(epoch, 1000 * epoch, epoch, {"rollout/return_mean": math.nan, **values})


def test_rate_and_time_left_come_from_the_last_seconds() -> None:
    progress = progress_at(steps=2000)
    assert math.isnan(progress.eta)
    start = progress.started
    progress.at(Tick(3000, 0, 3, None), start + 10)
    assert progress.rate == pytest.approx(100)
    assert progress.eta == pytest.approx(70)
    assert progress.fraction == pytest.approx(0.3)
    progress.at(Tick(7000, 0, 7, None), start + 20)
    progress.at(Tick(7500, 0, 7, None), start + 30)
    assert progress.rate == pytest.approx(50), "what was slow or fast before no longer counts"


def test_a_run_that_was_rolled_back_has_no_negative_rate() -> None:
    progress = progress_at(steps=5000)
    progress.at(Tick(1000, 0, 1, None), progress.started + 1)
    assert progress.rate == 0
    assert math.isnan(progress.eta)


def test_the_return_shown_is_the_last_there_was() -> None:
    progress = progress_at()
    for value in (5.0, 7.0, math.nan):
        progress.close_epoch(report(1, rollout__return_mean=value), None)
    assert progress.last_return == 7.0
    assert "train 7.000" in progress.line()


def test_key_losses_of_known_and_unknown_algorithms() -> None:
    progress = progress_at()
    progress.close_epoch(report(1, train__lr=1.0, train__kl=0.1, train__policy_loss=0.5, train__grad_norm=3.0), None)
    assert progress.losses == {"policy_loss": 0.5, "kl": 0.1}
    progress.close_epoch(report(1, train__surprise=1.0, train__lr=2.0), None)
    assert progress.losses == {"surprise": 1.0, "lr": 2.0}


def test_a_new_evaluation_is_noticed_once() -> None:
    progress = progress_at()
    evaluation: Any = SimpleNamespace(summary=SimpleNamespace(mean=3.0, ci_low=2.0, ci_high=4.0))
    assert not progress.close_epoch(report(1), None)
    assert progress.close_epoch(report(2), evaluation)
    assert not progress.close_epoch(report(3), evaluation)
    assert "eval 3.000" in progress.line()


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_an_evaluation_of_an_older_epoch_says_of_which() -> None:
    """Newcomer S4: `eval 274.6` was repeated on later lines without a mark that it is old."""
    progress, evaluation = progress_at(), SimpleNamespace(summary=SimpleNamespace(mean=274.6))
    lines = []
    for epoch, evaluated in ((1, 0), (2, 2), (3, 2)):
        progress.close_epoch(report(epoch), evaluation, evaluated)  # type: ignore[arg-type]
        progress.at(Tick(1000 * epoch, 0, epoch, None), progress.started + epoch)
        lines.append(progress.line().partition("eval ")[2])
    assert lines == ["274.6 (at the start)", "274.6", "274.6 (epoch 2)"]


@pytest.mark.parametrize("width", [20, 40, 100, 300])
def test_the_panel_fits_every_terminal(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm")
    screen = Screen()
    progress = progress_at()
    with LivePanel(screen, "name [bold]") as panel:
        panel.show(progress)
        progress.close_epoch(report(5, rollout__return_mean=1.0, train__loss=2.0), None)
        progress.at(Tick(5000, 1, 5, None), progress.started + 1)
        panel.show(progress)
    shown = screen.getvalue()
    assert "name [" in shown or width < 40
    assert "\x1b[?25h" in shown.rpartition("\x1b[?25l")[2], "the cursor is visible while it runs"


def test_the_bar_moves_in_a_long_rollout_and_says_when_the_run_is_evaluated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Newcomer S2: a rollout of 41 seconds showed a blank screen; S3: during the final evaluation nothing said so."""
    monkeypatch.setenv("COLUMNS", "100")
    screen, progress = Screen(), progress_at()
    session: Any = SimpleNamespace(evaluations=SimpleNamespace(under_way=""), signals=SimpleNamespace(received=None))
    with LivePanel(screen, "name") as panel:
        redraw = Redraw(panel, progress, session)
        monkeypatch.setattr(PULSE, "vector_steps", PULSE.vector_steps + 100)
        redraw.draw(progress.started)
        assert progress.env_steps == 0, "a Tick was drawn just now"
        redraw.draw(progress.started + 10)
        assert progress.env_steps == 800
        assert "800 of 10,000, 80/s" in screen.getvalue()
        session.evaluations.under_way = "evaluating the result, 20 episodes"
        redraw.draw(progress.started + 20)
        assert "evaluating the result, 20 episodes" in screen.getvalue()
        session.signals.received = 2
        redraw.draw(progress.started + 25)
    assert "stopping at the next safe point" in screen.getvalue()
    progress.at(Tick(2048, 0, 0, None), progress.started + 30)
    assert (progress.env_steps, progress.doing) == (2048, "")


def test_a_live_display_for_a_person(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen()
    monkeypatch.setattr("sys.stdout", screen)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    assert main(["launch", "-f", "tiny.yaml"]) == 0
    shown = screen.getvalue()
    assert "100 %  epoch 3/3" in shown
    assert "192 of 192" in shown
    assert "try next" in shown
    assert "epoch 3/3  192 steps" not in shown, "plain lines only go into the log"


class Tty(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


def closed_pipe() -> int:
    reading, writing = os.pipe()
    os.close(reading)
    return writing


@pytest.mark.parametrize("kind", [Tty, io.TextIOWrapper])
@pytest.mark.parametrize("make", [closed_pipe, lambda: os.open("/dev/full", os.O_WRONLY)], ids=["pipe", "full"])
def test_a_terminal_that_goes_away_does_not_cost_the_run(
    kind: type[io.TextIOWrapper], make: Callable[[], int], rlctl: Rlctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    with monkeypatch.context() as patch, kind(io.FileIO(make(), "w")) as stream:
        patch.setattr("sys.stdout", stream)
        assert main(["launch", "-f", "tiny.yaml"]) == 0
    assert rlctl("show", "last", "--json").document["state"] == "COMPLETED"


def test_a_log_that_cannot_be_written_does_not_cost_the_run(rlctl: Rlctl, monkeypatch: pytest.MonkeyPatch) -> None:
    append = LineWriter.append
    calls = []

    def full(self: LineWriter, lines: bytes) -> None:
        if lines.startswith((b"run ", b"epoch 2/3")):
            calls.append(lines)
            raise StorageError("stdout.log: the disk is full")
        append(self, lines)

    monkeypatch.setattr(LineWriter, "append", full)
    assert rlctl("launch", "-f", "tiny.yaml").code == 0
    assert len(calls) == 1


def test_output_of_a_reader_on_a_full_disk() -> None:
    class Full(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(StorageError, match="No space left"):
        Terminal(Full()).line("a")


@pytest.mark.parametrize("quiet", [(), ("--quiet",)])
def test_a_sink_that_fails_is_one_warning(
    quiet: tuple[str, ...], rlctl: Rlctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run goes on, and whoever watches it learns what the tool lacks."""

    def refused(self: SinkProcess) -> None:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(SinkProcess, "_start", refused)
    done = rlctl("launch", "-f", "tiny.yaml", "tracking.sinks=[tensorboard]", *quiet)
    assert done.code == 0
    (line,) = [line for line in done.err.splitlines() if "tensorboard" in line]
    assert line.startswith("rlctl: warning: tracking: the sink tensorboard failed: its process cannot be started: Res")
    assert line.endswith("--to tensorboard")


def test_a_sink_that_is_late_at_the_end_is_a_warning_too(rlctl: Rlctl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SinkProcess, "_start", lambda self: subprocess.Popen(["sleep", "60"], stdin=-1, stdout=-1))
    monkeypatch.setattr(SinkProcess, "_complaints", lambda self: iter(()))
    done = rlctl("launch", "-f", "tiny.yaml", "tracking={sinks: [tensorboard], finish_seconds: 0.1}")
    assert done.code == 0
    assert "warning: tracking: the sink tensorboard failed: not done within tracking.finish_seconds=0.1" in done.err
