"""A sweep on the screen: a table redrawn in place while it runs on a terminal, lines elsewhere, and its result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from rlstudio.cli.screen import text
from rlstudio.cli.screen.terminal import Cell, Terminal

if TYPE_CHECKING:
    from rich.console import Group

    from rlstudio.control.sweep.driver import Driver, SweepProgress
    from rlstudio.control.sweep.sweeps import Trial

ROWS = 12
STYLES = {"COMPLETED": "green", "FAILED": "red", "PRUNED": "dim", "RUNNING": "cyan"}


@contextmanager
def view(out: Terminal, driver: Driver) -> Iterator[Callable[[SweepProgress], None]]:
    """Yields the function that draws one snapshot of the sweep."""
    if not out.is_live:
        yield _Lines(out, driver).show
        return
    from rich.console import Console
    from rich.live import Live

    live = Live(console=Console(file=out.stream), auto_refresh=False, redirect_stdout=False, redirect_stderr=False)
    with live:

        def show(snapshot: SweepProgress) -> None:
            with suppress(OSError):  # a closed window does not stop the sweep
                live.update(_table(driver, snapshot), refresh=True)

        yield show


class _Lines:
    """One line for each trial that is chosen, and for each result."""

    def __init__(self, out: Terminal, driver: Driver) -> None:
        self._out, self._driver = out, driver
        self._printed: set[tuple[int, str, int]] = set()

    def show(self, snapshot: SweepProgress) -> None:
        for trial in snapshot.trials:
            key = (trial.number, str(trial.state), max(trial.results, default=0))
            if key not in self._printed:
                self._printed.add(key)
                self._out.line(_line(trial, self._driver))
        if snapshot.is_over:
            self._out.line(headline(self._driver, snapshot))
        self._out.flush()


def _line(trial: Trial, driver: Driver) -> str:
    if not trial.results and trial.is_live:
        return f"trial {trial.number}: {settings(trial)}"
    bound = f"{text.number(_bound(trial, driver))} at epoch {max(trial.results)}" if trial.results else ""
    why = f" ({trial.message})" if trial.message else ""
    state = "" if trial.is_live else f" {trial.state.lower()}"
    return f"trial {trial.number}:{state} {bound}{why}".replace("  ", " ")


def _bound(trial: Trial, driver: Driver) -> float | None:
    sign = -1 if driver.search.cfg.direction == "minimize" else 1
    return None if trial.score is None else sign * trial.score


def headline(driver: Driver, snapshot: SweepProgress) -> str:
    from rlstudio.control.sweep.report import best_of

    best = best_of(snapshot.trials)
    ended = sum(not trial.is_live for trial in snapshot.trials)
    total = max(driver.search.trials, len(snapshot.trials))
    running = sum(run.is_owned for run in snapshot.runs)
    best_text = "none yet" if best is None else f"{text.number(_bound(best, driver))} (trial {best.number})"
    return (
        f"{driver.sweep.name}: {ended}/{total} trials, {text.plural(running, 'run')} at work, best so far {best_text}"
    )


def _table(driver: Driver, snapshot: SweepProgress) -> Group:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 1), expand=False)
    for column in ("trial", "state", "epoch", "bound", "settings"):
        table.add_column(column, no_wrap=True, overflow="ellipsis")
    live = [trial for trial in snapshot.trials if trial.is_live]
    ended = sorted(
        (t for t in snapshot.trials if not t.is_live and t.score is not None), key=lambda t: -(t.score or 0.0)
    )
    for trial in [*ended[: max(3, ROWS - len(live))], *live][:ROWS]:
        epoch = f"{max(trial.results, default=0)}/{driver.search.epochs}"
        cells = [str(trial.number), trial.state.lower(), epoch, text.number(_bound(trial, driver)), settings(trial)]
        table.add_row(*map(text.safe, cells))
    return Group(Text(text.safe(headline(driver, snapshot)), style="bold", no_wrap=True, overflow="ellipsis"), table)


def print_sweep(out: Terminal, sweep: Mapping[str, Any]) -> None:
    out.line(f"{sweep['name']}  {sweep['state']}  {sweep['env_steps']:,} environment steps", "bold")
    if driver := sweep["driver"]:
        out.line(f"process {driver['pid']} on {driver['host']} drives it", "dim")
    if sweep["paused"] and driver:
        out.line(f"{sweep['paused']} of its runs are paused by their user; go on with each: rlctl resume RUN", "yellow")
    out.table(["trial", "state", "epoch", sweep["metric"], "bound", "runs", "settings"], _trial_rows(sweep))
    if shares := sweep["importance"]:
        out.line(f"how much of {sweep['metric']} each setting explains:", "dim")
        for path, share in shares.items():
            out.line(f"  {share:4.2f}  {path}", "dim")
    best = next((trial for trial in sweep["trials"] if trial["number"] == sweep["best"]), None)
    if best is None:
        out.line("no trial has completed", "yellow")
        return
    seeds = text.plural(len(sweep["seeds"]), "seed")
    out.line(f"best: trial {best['number']}, {sweep['metric']} {text.number(best['value'])} over {seeds}", "green")
    out.line(f"  {settings_text(best['params'])}")


def print_sweeps(out: Terminal, sweeps: Sequence[Mapping[str, Any]]) -> None:
    rows = [
        [sweep["name"], sweep["state"], text.age(sweep["created_at"]), str(sweep["trials"]), str(sweep["live"])]
        for sweep in sweeps
    ]
    out.table(["name", "state", "age", "trials", "live"], rows)


def _trial_rows(sweep: Mapping[str, Any]) -> list[list[str | Cell]]:
    return [
        [
            f"{trial['number']}{' *' if trial['number'] == sweep['best'] else ''}",
            Cell(trial["state"], STYLES.get(trial["state"], "")),
            f"{trial['epoch']}/{sweep['epochs']}",
            text.number(trial["value"]),
            text.number(trial["bound"]),
            trial["name"],
            settings_text(trial["params"]),
        ]
        for trial in sweep["trials"]
    ]


def settings(trial: Trial) -> str:
    return settings_text(trial.params)


def settings_text(params: Mapping[str, object]) -> str:
    """The settings of a trial as they are written on a command line."""
    overrides = [f"{path}={f'{value:.4g}' if isinstance(value, float) else value}" for path, value in params.items()]
    return " ".join(overrides).replace(", ", ",")
