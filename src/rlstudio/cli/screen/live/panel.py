"""The live display: one panel that is redrawn in place a few times a second, only where a person looks at it."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import TextIO

from rich.console import Console
from rich.live import Live
from rich.panel import Panel
from rich.text import Text

from rlstudio.cli.screen import text
from rlstudio.cli.screen.live.progress import Progress

MAX_WIDTH = 100
MIN_BAR = 10


class LivePanel:
    """If the terminal goes away (its window was closed), nothing more is drawn and training goes on."""

    def __init__(self, stream: TextIO, title: str) -> None:
        self._title = title
        self._console = Console(file=stream)
        self._live = Live(console=self._console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False)

    def __enter__(self) -> LivePanel:
        with suppress(OSError):
            self._live.start()
            # A second Ctrl-C leaves at once and could not bring back a hidden cursor.
            self._console.show_cursor(True)
        return self

    def show(self, progress: Progress) -> None:
        width = min(self._console.width, MAX_WIDTH)
        body = Text("\n").join([_bar(progress, width - 4), *_rows(progress, width - 4)])
        panel = Panel(body, title=Text(self._title), title_align="left", border_style="dim", width=width)
        with suppress(OSError):
            self._live.update(panel, refresh=True)

    def __exit__(self, *_: object) -> None:
        """The panel stays as it is; what is printed next comes below it."""
        with suppress(OSError):
            self._live.stop()


def _bar(progress: Progress, width: int) -> Text:
    label = (
        f" {100 * progress.fraction:3.0f} %  epoch {progress.epoch}/{progress.epochs}"
        f"  {text.duration(progress.elapsed)} < {text.duration(progress.eta)}"
    )
    cells = max(width - len(label), MIN_BAR)
    done = round(cells * progress.fraction)
    return Text.assemble(("━" * done, "green"), ("━" * (cells - done), "dim"), label, no_wrap=True)


def _rows(progress: Progress, width: int) -> list[Text]:
    rate = progress.rate
    steps = f"{progress.env_steps:,} of {progress.total_steps:,}, {rate:,.0f}/s" if math.isfinite(rate) else "-"
    line = text.sparkline(list(progress.returns), max(width - 32, 8))
    rows = [
        _row("steps", steps),
        _row("train", text.number(progress.last_return), f"  {line}"),
        _row("losses", "  ".join(f"{name} {text.number(value)}" for name, value in progress.losses.items()) or "-"),
    ]
    if progress.evaluation is not None:
        summary = progress.evaluation.summary
        rows.append(
            _row(
                "eval",
                text.number(summary.mean),
                f"  {text.interval((summary.ci_low, summary.ci_high))}{progress.evaluation_age}",
            )
        )
    if progress.doing:
        rows.append(_row("now", progress.doing))
    return rows


def _row(label: str, value: str, more: str = "") -> Text:
    return Text.assemble((f"{label:<8}", "dim"), (value, "bold"), (more, "cyan"), no_wrap=True, overflow="ellipsis")
