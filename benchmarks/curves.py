"""The curves of each algorithm's page: `python -m benchmarks.curves` draws `docs/algorithms/img/<algo>.svg`.

One panel for each cell of the learning table: evaluations during training, interquartile mean over seeds with its 95 %
band, from the stored results. The dashed line is the published score. Two of the cells are also drawn as `rlctl plot`
draws two groups, light and dark, for `docs/howto/compare.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.cells import CELLS, Cell
from benchmarks.learning import current_lines, read_store
from benchmarks.settings import OURS
from benchmarks.venvs import ROOT
from rlstudio.core.rng import Rng
from rlstudio.experiment.analysis.curves import COLOURS, STYLE, Curve, band, plot_runs
from rlstudio.experiment.config.experiment import load_experiment

FOLDER = ROOT / "docs" / "algorithms" / "img"
COLUMNS = 3

EXAMPLE = {"dqn": "dqn_lunarlander", "qrdqn": "qrdqn_lunarlander"}
EXAMPLE_PICTURES = {"curves.png": False, "curves-dark.png": True}
"""Whether each is dark."""

Runs = list[tuple[list[float], list[float]]]


def runs_of(cell: Cell, lines: Sequence[dict[str, Any]]) -> Runs:
    """The evaluations of each seed as (steps, returns)."""
    found = []
    for line in lines:
        if line["cell"] == cell.key and line["side"] == OURS and line.get("curve"):
            steps, returns = zip(*line["curve"], strict=True)
            found.append((list(steps), list(returns)))
    return found


def draw(panels: Sequence[tuple[Cell, Runs]], path: Path) -> None:
    """All cells of one algorithm in one picture."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    rows = -(-len(panels) // COLUMNS)
    columns = min(len(panels), COLUMNS)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(3.4 * columns, 2.6 * rows), layout="constrained")
        for number, (cell, runs) in enumerate(panels, 1):
            _panel(figure.add_subplot(rows, columns, number), cell, runs)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, format="svg", metadata={"Date": None})


def _panel(axes: Any, cell: Cell, runs: Runs) -> None:
    from matplotlib.ticker import EngFormatter

    over = band(runs, Rng(0, "curves").generator())
    if over is not None:
        axes.fill_between(over.xs, over.low, over.high, color=COLOURS[0], alpha=0.2, linewidth=0)
        axes.plot(over.xs, over.centre, color=COLOURS[0], linewidth=1.6)
    if cell.published is not None:
        axes.axhline(cell.published.mean, color=COLOURS[1], linewidth=1.0, linestyle="--")
    axes.set_title(f"{load_experiment(cell.config).env.id} ({len(runs)} seeds)", loc="left", fontsize=9)
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.grid(axis="y", color="#E4E4E4", linewidth=0.8)
    axes.tick_params(labelsize=8)


def main() -> None:
    lines = current_lines(read_store(), seeds=max(cell.seeds for cell in CELLS))
    for algo in dict.fromkeys(cell.algo for cell in CELLS):
        panels = [(cell, runs_of(cell, lines)) for cell in CELLS if cell.algo == algo]
        panels = [(cell, runs) for cell, runs in panels if runs]
        if panels:
            draw(panels, FOLDER / f"{algo}.svg")
            print(f"{algo}: {', '.join(f'{cell.key} {len(runs)}' for cell, runs in panels)}")
    cells = {cell.key: cell for cell in CELLS}
    groups = [Curve(name, runs_of(cells[key], lines)) for name, key in EXAMPLE.items()]
    for name, dark in EXAMPLE_PICTURES.items():
        print(plot_runs(groups, ROOT / "docs/howto/img" / name, title="LunarLander-v3", dark=dark).name)


if __name__ == "__main__":
    main()
