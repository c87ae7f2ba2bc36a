"""The tables of `docs/howto/planning.md`, from the stored results of `benchmarks.planning`."""

from __future__ import annotations

from statistics import median
from typing import Any

import numpy as np

from benchmarks.page import replace_between, table
from benchmarks.planning_rows import ROWS
from benchmarks.records import read_result
from benchmarks.venvs import ROOT

PAGE = ROOT / "docs" / "howto" / "planning.md"
TITLES = {"rlstudio": "RLStudio", "pytorch_mppi": "pytorch_mppi"}


def write() -> str:
    """Render what is stored into the page, and return the text."""
    returns, speed = read_result("planning_returns"), read_result("planning_speed")
    parts = [*([_returns(returns)] if returns else []), *([_speed(speed)] if speed else [])]
    text = "\n\n".join(parts) or "Nothing has been measured yet."
    replace_between(PAGE, "planning", text)
    return text


def _returns(result: dict[str, Any]) -> str:
    rows = []
    for row in ROWS:
        if row.key not in result["rows"]:
            continue
        found = np.asarray(result["rows"][row.key]["returns"])
        settings = ", ".join(f"{k} {v}" for k, v in result["rows"][row.key]["planner"].items() if k != "kind")
        wanted = "reported" if row.wanted is None else f">= {row.wanted:g}"
        met = "" if row.wanted is None else ("yes" if found.mean() >= row.wanted else "**no**")
        least = f"{found.min():.0f} to {found.max():.0f}"
        rows.append([f"{row.env_id} {row.planner['kind']}", settings, f"{found.mean():.1f}", least, wanted, met])
    header = ["world and kind", "settings beside the defaults", "mean return", "range", "wanted", "met"]
    return f"### What plans earn\n\n{table(header, rows)}\n\n{_footnote(result)}"


def _speed(result: dict[str, Any]) -> str:
    found = {(side, envs): _best(result, side, envs) for side in TITLES for envs in (1, 256)}
    rows = [
        [TITLES[side], str(envs), f"{best[0]:,.0f}", f"{best[0] / envs:,.1f}", str(best[1])]
        for (side, envs), best in sorted(found.items(), key=lambda item: item[0][1])
        if best is not None
    ]
    header = ["MPPI, 100 sequences of 15 steps, Pendulum-v1", "environments", "microseconds", "per plan", "threads"]
    parts = [f"### How long a plan takes\n\n{table(header, rows)}", _promises(found), _grid(result), _trees(result)]
    return "\n\n".join([*(part for part in parts if part), _footnote(result)])


def _best(result: dict[str, Any], side: str, envs: int) -> tuple[float, int] | None:
    """Microseconds at the better thread count, each the median of its repetitions."""
    times: dict[int, list[float]] = {}
    for line in result["against"]:
        if line["side"] == side and line["envs"] == envs and "median_us" in line:
            times.setdefault(line["threads"], []).append(line["median_us"])
    return min(((median(values), threads) for threads, values in times.items()), default=None)


def _promises(found: dict[tuple[str, int], tuple[float, int] | None]) -> str:
    single, many, other = found["rlstudio", 1], found["rlstudio", 256], found["pytorch_mppi", 1]
    rows = []
    if single and other:
        rows.append(_promise("one plan, to pytorch_mppi's", single[0] / other[0], 1.0, "<="))
    if single and many:
        rows.append(_promise("plans per second with 256 environments, to one", 256 * single[0] / many[0], 20.0, ">="))
    return table(["what", "ratio", "wanted", "met"], rows) if rows else ""


def _promise(what: str, ratio: float, wanted: float, sense: str) -> list[str]:
    met = ratio <= wanted if sense == "<=" else ratio >= wanted
    return [what, f"{ratio:.2f}", f"{sense} {wanted:g}", "yes" if met else "**no**"]


def _grid(result: dict[str, Any]) -> str:
    """Plans per second: environments to the right, everything else down."""
    envs = sorted({cell["envs"] for cell in result["grid"]})
    kinds = dict.fromkeys((c["candidates"], c["horizon"], c["iterations"]) for c in result["grid"])
    rate = {
        (c["candidates"], c["horizon"], c["iterations"], c["envs"]): f"{1e6 * c['envs'] / c['median_us']:,.0f}"
        for c in result["grid"]
        if "median_us" in c
    }
    rows = [[*map(str, kind), *(rate.get((*kind, count), "-") for count in envs)] for kind in kinds]
    header = ["CEM, Pendulum-v1: candidates", "steps", "rounds", *(f"{count} envs" for count in envs)]
    return f"Plans per second, one thread:\n\n{table(header, rows)}"


def _trees(result: dict[str, Any]) -> str:
    rates = [f"{1e6 * c['envs'] / c['median_us']:,.0f}" if "median_us" in c else "-" for c in result["trees"]]
    header = ["MCTS, CartPole-v1: simulations", *(f"{cell['envs']} envs" for cell in result["trees"])]
    return table(header, [[str(result["trees"][0]["simulations"]), *rates]])


def _footnote(result: dict[str, Any]) -> str:
    machine = result["machine"]
    versions = "; ".join(
        f"{TITLES[side]}: {', '.join(f'{name} {version}' for name, version in found.items())}"
        for side, found in result["versions"].items()
    )
    missing = "".join(f" {TITLES[s]} could not be installed: {r}." for s, r in result.get("not_installed", {}).items())
    return (
        f"<sub>`{result['command']}`, {result['date']}; {machine['cores']} cores ({machine['processor']}),"
        f" {machine['memory_gib']} GiB, Python {machine['python']}. {versions}.{missing}</sub>"
    )
