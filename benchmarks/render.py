"""The tables of `docs/benchmarks.md`, from stored results."""

from __future__ import annotations

from typing import Any

from benchmarks.page import replace_between, table
from benchmarks.records import read_result
from benchmarks.settings import OURS, REFERENCE_ENTRY, ROWS, SOLVE_ROW, TITLES, WORLDS, Entry, Row
from benchmarks.summary import Speed, facts_of, failures, solves, speeds
from benchmarks.venvs import ROOT

PAGE = ROOT / "docs" / "benchmarks.md"
Results = dict[str, dict[str, Any]]


def write_page() -> str:
    """Render every stored row into the page, and return the text."""
    names = [row.key for row in ROWS] + [SOLVE_ROW.key, "overhead"]
    stored = {name: result for name in names if (result := read_result(f"speed_{name}")) is not None}
    text = report(stored)
    replace_between(PAGE, "speed", text)
    return text


def report(results: Results) -> str:
    parts = [_targets(results)]
    parts += [_rate_section(row, results[row.key]) for row in ROWS if row.key in results]
    if SOLVE_ROW.key in results:
        parts.append(_solve_section(results[SOLVE_ROW.key]))
    if "overhead" in results:
        parts.append(_overhead_section(results["overhead"]))
    return "\n\n".join(part for part in parts if part)


def _targets(results: Results) -> str:
    """The promises, in one table."""
    rows = []
    for row in ROWS:
        found = speeds(results[row.key]["measurements"]) if row.key in results else {}
        reference = found.get(REFERENCE_ENTRY.key)
        for entry in row.entries:
            if entry.target is None or reference is None or entry.key not in found:
                continue
            mine = found[entry.key]
            ratio, memory = mine.best / reference.best, mine.peak_rss_mb / reference.peak_rss_mb
            what, measured = f"{row.title} ({WORLDS[entry.vectorization]})", _measured(results[row.key])
            rows.append([what, *_verdict(ratio, entry.target, ">="), measured])
            fastest = max((found[e.key] for e in row.entries if e.side != OURS and e.key in found), key=_best)
            rows.append(["- to the fastest other library", *_verdict(mine.best / fastest.best, 1.0, ">="), measured])
            rows.append(["- its peak memory", *_verdict(memory, 1.0, "<="), measured])
    if SOLVE_ROW.key in results:
        entry, found_solves = SOLVE_ROW.entries[0], solves(results[SOLVE_ROW.key]["measurements"])
        if {entry.key, REFERENCE_ENTRY.key} <= found_solves.keys():
            ratio = found_solves[entry.key].median_s / found_solves[REFERENCE_ENTRY.key].median_s
            measured = _measured(results[SOLVE_ROW.key])
            rows.append([SOLVE_ROW.title, *_verdict(ratio, entry.target or 1.0, "<="), measured])
    if not rows:
        return ""
    return "### Against Stable-Baselines3\n\n" + table(["what", "ratio", "wanted", "met", "measured"], rows)


def _measured(result: dict[str, Any]) -> str:
    """When and on what RLStudio was measured, or another side by its own facts."""
    facts = facts_of(result, OURS)
    machine = facts["machine"]
    return f"{facts['date']}, {machine['cores']} cores ({machine['processor']})"


def _best(speed: Speed) -> float:
    return speed.best


def _verdict(ratio: float, target: float, sense: str) -> list[str]:
    met = ratio >= target if sense == ">=" else ratio <= target
    return [f"{ratio:.2f}", f"{sense} {target:g}", "yes" if met else "**no**"]


def _rate_section(row: Row, result: dict[str, Any]) -> str:
    found = speeds(result["measurements"])
    reference = found.get(REFERENCE_ENTRY.key)
    counts = sorted({threads for speed in found.values() for threads in speed.rates})
    lines = []
    for entry in sorted((e for e in row.entries if e.key in found), key=lambda e: -found[e.key].best):
        mine = found[entry.key]
        lines.append(
            [
                _label(entry),
                *(f"{mine.rates[count]:,.0f}" if count in mine.rates else "-" for count in counts),
                f"{mine.best / reference.best:.2f}" if reference else "-",
                f"{mine.peak_rss_mb:.0f}",
            ]
        )
    threads = [f"{count} thread{'s' if count > 1 else ''}" for count in counts]
    body = table(["environment steps per second", *threads, "vs SB3", "peak MB"], lines)
    return f"### {row.title}\n\n{body}\n\n{_footnote(result)}"


def _solve_section(result: dict[str, Any]) -> str:
    found = solves(result["measurements"])
    lines = [
        [
            _label(entry),
            f"{mine.median_s:.2f}",
            f"{min(mine.seconds):.2f} - {max(mine.seconds):.2f}",
            f"{sorted(mine.env_steps)[len(mine.env_steps) // 2]:,}",
            f"{mine.solved} of {len(mine.seconds)}",
        ]
        for entry in SOLVE_ROW.entries
        if (mine := found.get(entry.key))
    ]
    body = table(["one thread", "median s", "range s", "median steps", "seeds solved"], lines)
    return f"### {SOLVE_ROW.title}\n\n{body}\n\n{_footnote(result)}"


def _overhead_section(result: dict[str, Any]) -> str:
    found = result["measurements"]
    rows = [
        ["`rlctl --help`", f"{found['help_s']:.3f} s", "< 0.3 s"],
        [f"`rlctl ls` ({found['ls_runs']} runs)", f"{found['ls_s']:.3f} s", "< 0.5 s"],
    ]
    for algo, cost in found["checkpoint"].items():
        what = f"one checkpoint, {algo.upper()} ({cost['saves']} in the run; share of its time)"
        rows.append([what, f"{cost['save_ms']:.0f} ms ({100 * cost['share']:.2f} %)", "reported"])
    return f"### Everyday waiting\n\n{table(['what', 'median', 'wanted'], rows)}\n\n{_footnote(result)}"


def _label(entry: Entry) -> str:
    name = f"{entry.title or TITLES[entry.side]} ({WORLDS[entry.vectorization]})"
    return f"**{name}**" if entry.side == OURS else name


def _footnote(result: dict[str, Any]) -> str:
    """Where the numbers come from, and what is missing in them."""
    machine = result["machine"]
    versions = "; ".join(
        f"{TITLES[side]}: {', '.join(f'{name} {version}' for name, version in found.items())}"
        for side, found in result["versions"].items()
    )
    text = (
        f"`{result['command']}`, {result['date']}; {machine['cores']} cores ({machine['processor']}),"
        f" {machine['memory_gib']} GiB, {machine['system']}, Python {machine['python']}. {versions}."
    )
    for side, facts in result.get("earlier", {}).items():
        text += f" {TITLES[side]}: `{facts['command']}`, {_measured(facts)}."
    for side, reason in result.get("not_installed", {}).items():
        text += f" {TITLES[side]} could not be installed: {reason}."
    if isinstance(result["measurements"], list):
        for entry, reason in failures(result["measurements"]).items():
            text += f" Failed repetitions of {entry}: {reason}."
    return f"<sub>{text}</sub>"
