"""A sweep while it runs: a table that is redrawn in place where a person looks at it, plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from rlstudio.cli import text
from rlstudio.cli.terminal import Terminal

if TYPE_CHECKING:
    from rich.console import Group

    from rlstudio.control.store.sweeps import Trial
    from rlstudio.control.sweep.driver import Driver, Seen

ROWS = 12


@contextmanager
def view(out: Terminal, driver: Driver) -> Iterator[Callable[[Seen], None]]:
    """What to call with each look."""
    if not out.is_live:
        yield _Lines(out, driver).show
        return
    from rich.console import Console
    from rich.live import Live

    live = Live(console=Console(file=out.stream), auto_refresh=False, redirect_stdout=False, redirect_stderr=False)
    with live:

        def show(seen: Seen) -> None:
            with suppress(OSError):  # a closed window is no reason to stop
                live.update(_table(driver, seen), refresh=True)

        yield show


class _Lines:
    """One line for each trial that is chosen, and for each result."""

    def __init__(self, out: Terminal, driver: Driver) -> None:
        self._out, self._driver = out, driver
        self._told: set[tuple[int, str, int]] = set()

    def show(self, seen: Seen) -> None:
        for trial in seen.trials:
            key = (trial.number, str(trial.state), max(trial.results, default=0))
            if key not in self._told:
                self._told.add(key)
                self._out.line(_line(trial, self._driver))
        if seen.is_over:
            self._out.line(headline(self._driver, seen))
        self._out.flush()


def _line(trial: Trial, driver: Driver) -> str:
    from rlstudio.cli.sweep import settings

    if not trial.results and trial.is_live:
        return f"trial {trial.number}: {settings(trial)}"
    told = f"{text.number(_bound(trial, driver))} at epoch {max(trial.results)}" if trial.results else ""
    why = f" ({trial.message})" if trial.message else ""
    state = "" if trial.is_live else f" {trial.state.lower()}"
    return f"trial {trial.number}:{state} {told}{why}".replace("  ", " ")


def _bound(trial: Trial, driver: Driver) -> float | None:
    sign = -1 if driver.search.cfg.direction == "minimize" else 1
    return None if trial.score is None else sign * trial.score


def headline(driver: Driver, seen: Seen) -> str:
    from rlstudio.control.sweep.report import best_of

    best = best_of(seen.trials)
    ended = sum(not trial.is_live for trial in seen.trials)
    total = max(driver.search.trials, len(seen.trials))
    running = sum(run.is_owned for run in seen.runs)
    told = "none yet" if best is None else f"{text.number(_bound(best, driver))} (trial {best.number})"
    return f"{driver.sweep.name}: {ended}/{total} trials, {running} runs at work, best so far {told}"


def _table(driver: Driver, seen: Seen) -> Group:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    from rlstudio.cli.sweep import settings

    table = Table(box=None, padding=(0, 1), expand=False)
    for column in ("trial", "state", "epoch", "bound", "settings"):
        table.add_column(column, no_wrap=True, overflow="ellipsis")
    live = [trial for trial in seen.trials if trial.is_live]
    ended = sorted((t for t in seen.trials if not t.is_live and t.score is not None), key=lambda t: -(t.score or 0.0))
    for trial in [*ended[: max(3, ROWS - len(live))], *live][:ROWS]:
        epoch = f"{max(trial.results, default=0)}/{driver.search.epochs}"
        cells = [str(trial.number), trial.state.lower(), epoch, text.number(_bound(trial, driver)), settings(trial)]
        table.add_row(*map(text.safe, cells))
    return Group(Text(text.safe(headline(driver, seen)), style="bold", no_wrap=True, overflow="ellipsis"), table)
