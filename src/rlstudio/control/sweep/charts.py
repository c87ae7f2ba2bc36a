"""A sweep in two pictures: what each setting was and what came of it (parallel coordinates), and each setting against
the result (scatter). Matplotlib is imported when they are asked for."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rlstudio.control.sweep.config import Dimension
from rlstudio.control.sweep.report import SweepSummary
from rlstudio.control.sweep.space import number_of
from rlstudio.control.sweep.sweeps import Trial, TrialState
from rlstudio.core.errors import UserError
from rlstudio.experiment.analysis.curves import COLOURS, STYLE
from rlstudio.storage.output_file import written_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MARKS = {TrialState.COMPLETED: "o", TrialState.PRUNED: "x", TrialState.RUNNING: "."}
MOST_TICKS = 4
"""Labels that fit below one small picture."""


def draw(summary: SweepSummary, folder: Path, suffix: str = ".svg") -> list[Path]:
    """Both pictures, into a folder."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with_result = [trial for trial in summary.trials if summary.value(trial) is not None]
    if not with_result:
        raise UserError(f"sweep {summary.sweep.name}: no trial has a result yet; there is nothing to draw")
    paths = list(summary.cfg.space)
    written = []
    with rc_context(STYLE):
        for name, painter in (("parallel", _parallel), ("scatter", _scatter)):
            figure = Figure(layout="constrained")
            painter(figure, summary, with_result, paths)
            target = folder / f"{name}{suffix}"
            with written_whole(target) as partial:
                metadata = {"Date": None} if suffix == ".svg" else {}
                figure.savefig(partial, dpi=150, metadata=metadata)
            written.append(target)
    return written


def _parallel(figure: Figure, summary: SweepSummary, trials: list[Trial], paths: list[str]) -> None:
    from matplotlib import colormaps

    figure.set_size_inches(max(7, 1.6 * (len(paths) + 1)), 4.5)
    axes = figure.add_subplot()
    values = np.array([summary.value(trial) for trial in trials], np.float64)
    low, high = float(values.min()), float(values.max())
    height = (values - low) / (high - low) if high > low else np.full(len(values), 0.5)
    order = np.argsort(height * summary.sign)
    for index in order:  # the best on top
        trial = trials[int(index)]
        ys = [
            _height(summary.cfg.space[path], trial.params[path]) if path in trial.params else math.nan for path in paths
        ]
        good = height[index] if summary.sign > 0 else 1 - height[index]
        style = "-" if trial.state == TrialState.COMPLETED else ":"
        axes.plot([*ys, height[index]], style, color=colormaps["viridis"](good), linewidth=0.8 + 1.4 * good)
    for x, path in enumerate(paths):
        axes.axvline(x, color="#bbbbbb", linewidth=0.6, zorder=0)
        for y, text in _labels(summary.cfg.space[path]):
            axes.annotate(text, (x, y), xytext=(3, 2), textcoords="offset points", fontsize=7, color="#555555")
    for y, value in ((0.0, low), (1.0, high)):
        axes.annotate(f"{value:.4g}", (len(paths), y), xytext=(3, 2), textcoords="offset points", fontsize=7)
    axes.set_xticks(range(len(paths) + 1), [*paths, summary.cfg.metric], rotation=20, ha="right", fontsize=8)
    axes.set_yticks([])
    axes.set_title(_title(summary, trials, "dotted"), loc="left", fontsize=10)


def _scatter(figure: Figure, summary: SweepSummary, trials: list[Trial], paths: list[str]) -> None:
    columns = min(3, len(paths))
    rows = math.ceil(len(paths) / columns)
    figure.set_size_inches(3.4 * columns, 2.8 * rows)
    for place, path in enumerate(paths):
        axes = figure.add_subplot(rows, columns, place + 1)
        dimension = summary.cfg.space[path]
        for state, mark in MARKS.items():
            own = [trial for trial in trials if trial.state == state and path in trial.params]
            xs = [_number(dimension, trial.params[path]) for trial in own]
            colour = COLOURS[0] if state == TrialState.COMPLETED else COLOURS[6]
            ys = np.array([summary.value(trial) for trial in own], np.float64)
            axes.plot(xs, ys, mark, color=colour, markersize=4)
        if dimension.log:
            axes.set_xscale("log")
            ticks = log_ticks(float(dimension.low or 0), float(dimension.high or 0))
            axes.set_xticks(ticks, [_number_text(tick) for tick in ticks])
            axes.xaxis.minorticks_off()  # their labels are formulas, which STYLE does not typeset
        if dimension.choices is not None:
            axes.set_xticks(range(len(dimension.choices)), [_short(choice) for choice in dimension.choices])
        axes.tick_params(labelsize=7)
        axes.set_xlabel(path, fontsize=8)
        axes.set_ylabel(summary.cfg.metric, fontsize=8)
    figure.suptitle(_title(summary, trials, "x"), x=0.01, ha="left", fontsize=10)


def log_ticks(low: float, high: float) -> list[float]:
    """Round numbers from `low` to `high`, at most `MOST_TICKS`: powers of ten, in a narrow range also multiples of
    them; both ends where there is no room even for those."""
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for factors in ((1,), (1, 2, 5), range(1, 10)):
        candidates = [float(f"{factor}e{exponent}") for exponent in exponents for factor in factors]
        ticks = [tick for tick in candidates if low <= tick <= high]
        if len(ticks) >= 3:
            return ticks[:: math.ceil(len(ticks) / MOST_TICKS)]
    return [low, high]


def _number(dimension: Dimension, value: object) -> float:
    return float(dimension.choices.index(value)) if dimension.choices is not None else number_of(value)


def _height(dimension: Dimension, value: object) -> float:
    if dimension.choices is not None:
        return dimension.choices.index(value) / max(1, len(dimension.choices) - 1)
    low, high, number = float(dimension.low or 0), float(dimension.high or 0), number_of(value)
    if dimension.log:
        low, high, number = math.log(low), math.log(high), math.log(number)
    return (number - low) / (high - low)


def _labels(dimension: Dimension) -> list[tuple[float, str]]:
    if dimension.choices is not None:
        return [(_height(dimension, choice), _short(choice)) for choice in dimension.choices]
    return [(0.0, _number_text(dimension.low or 0)), (1.0, _number_text(dimension.high or 0))]


def _title(summary: SweepSummary, trials: list[Trial], pruned: str) -> str:
    """`pruned` is how trials that were given up are drawn."""
    key = f" ({pruned}: pruned)" if any(trial.state == TrialState.PRUNED for trial in trials) else ""
    return f"{summary.sweep.name}: {len(trials)} trial{'s' * (len(trials) != 1)}{key}"


def _number_text(value: float) -> str:
    """As people write settings: 0.05, 256, 3e-4."""
    if not value or 1e-2 <= abs(value) < 1e5:
        return f"{value:g}"
    mantissa, exponent = f"{value:.5e}".split("e")
    return f"{float(mantissa):g}e{int(exponent)}"


def _short(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 14 else f"{text[:12]}…"
