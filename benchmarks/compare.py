"""Speed, side by side with other libraries: `python -m benchmarks.compare` (that is `make bench`).

Every repetition is a fresh process. Repetitions are interleaved (each side once, then each side again), so that a busy
minute of the machine falls on everybody. Each row's raw numbers go to `benchmarks/results/speed_<row>.json`, the tables
to `docs/benchmarks.md`. A side that is not measured keeps the numbers that are stored for it, with the date and machine
they are from. About 40 minutes on two cores; `--quick` tries everything out in a few and writes nothing.

CleanRL is scripts in a repository, nothing that can be installed: clone it and name the folder with `--cleanrl`.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks import overhead, render
from benchmarks.jobs import JobFailed, run_job
from benchmarks.records import provenance, read_result, write_result
from benchmarks.settings import CLEANRL, OURS, REFERENCE, ROWS, SOLVE_ROW, TITLES, Entry, Row
from benchmarks.venvs import CannotInstall, Venv, ours, prepare

PEERS = [side for side in TITLES if side not in (OURS, CLEANRL)]
NAMES = (*(row.key for row in ROWS), SOLVE_ROW.key, "overhead")


def plan_rates(row: Row, threads: Sequence[int], reps: int | None = None) -> Iterator[dict[str, Any]]:
    """Repetition by repetition, thread count by thread count, side by side; as often as the row says, or `reps`."""
    for rep in range(reps or max(row.reps, row.peer_reps)):
        for count in threads:
            for entry in row.entries:
                if rep < (reps or _repetitions(row, entry)):
                    yield _step(entry, "rate", count, rep)


def _repetitions(row: Row, entry: Entry) -> int:
    return row.reps if entry.side in (OURS, REFERENCE) else row.peer_reps


def plan_solves(row: Row, seeds: int) -> Iterator[dict[str, Any]]:
    """Seed by seed; who goes first alternates."""
    for seed in range(seeds):
        for entry in row.entries if seed % 2 == 0 else row.entries[::-1]:
            yield _step(entry, "solve", 1, seed)


def _step(entry: Entry, what: str, threads: int, rep: int) -> dict[str, Any]:
    told = {"side": entry.side, "entry": entry.key, "vectorization": entry.vectorization}
    return {**told, "what": what, "threads": threads, "rep": rep, "seed": rep}


def measure(
    row: Row, plan: Iterator[dict[str, Any]], venvs: dict[str, Venv], seconds: float, checkout: Path | None
) -> list[dict[str, Any]]:
    """Run the plan for the sides that are there. A failed job is a line of the result, not the end."""
    measurements = []
    for step in plan:
        if step["side"] not in venvs:
            continue  # cannot be installed here, or was not asked for
        job = {**row.settings, **step, "seconds": seconds, "checkout": str(checkout)}
        told = {name: step[name] for name in ("entry", "threads", "rep")}
        try:
            found = run_job(venvs[step["side"]].python, f"{step['side']}_runner", job)
        except JobFailed as error:
            found = {"error": str(error)}
        measurements.append({**told, **found})
        _progress(row.key, measurements[-1])
    return measurements


def prepare_sides(peers: Sequence[str], checkout: Path | None) -> tuple[dict[str, Venv], dict[str, str]]:
    """The environments that could be made, and why the others could not."""
    venvs, missing = {OURS: ours()}, {}
    for peer in peers if checkout is None else [*peers, CLEANRL]:
        try:
            venvs[peer] = prepare(peer)
        except CannotInstall as error:
            missing[peer] = str(error)
            print(f"{TITLES[peer]}: cannot be installed here: {error}", file=sys.stderr)
    if checkout is not None and CLEANRL in venvs:
        venvs[CLEANRL].versions["cleanrl"] = _version_of(checkout)
    return venvs, missing


def _version_of(checkout: Path) -> str:
    """Of CleanRL, by its project file."""
    project = tomllib.loads((checkout / "pyproject.toml").read_text(encoding="utf-8"))
    return str(project["project"]["version"])


def run_row(row: Row, args: argparse.Namespace, venvs: dict[str, Venv], missing: dict[str, str]) -> dict[str, Any]:
    solving = row is SOLVE_ROW
    plan = plan_solves(row, args.seeds) if solving else plan_rates(row, args.threads, args.reps)
    venvs = {side: venv for side, venv in venvs.items() if side != OURS or not args.only_peers}
    versions = {side: venv.versions for side, venv in venvs.items() if any(side == e.side for e in row.entries)}
    facts = provenance(versions)
    if args.cleanrl is not None:  # where it lies is nobody's business
        facts["command"] = facts["command"].replace(str(args.cleanrl), "PATH")
    return {
        "row": row.key,
        **facts,
        "settings": row.settings,
        "not_installed": missing,
        "measurements": measure(row, plan, venvs, args.seconds or row.seconds, args.cleanrl),
    }


def with_stored(result: dict[str, Any], stored: dict[str, Any] | None) -> dict[str, Any]:
    """The result with the stored numbers of the sides that it has not measured; `earlier` says where those are from.
    Numbers of other settings are not kept."""
    if stored is None or stored["settings"] != result["settings"]:
        return result
    of_side = [(line["entry"].partition("/")[0], line) for line in stored["measurements"]]
    measured = {line["entry"].partition("/")[0] for line in result["measurements"]}
    kept = [line for side, line in of_side if side not in measured]
    facts = {name: stored[name] for name in ("command", "date", "machine", "commit")}
    sides = dict.fromkeys(side for side, _ in of_side if side not in measured)
    earlier = {side: stored.get("earlier", {}).get(side, facts) for side in sides}
    versions = {**{side: stored["versions"][side] for side in sides}, **result["versions"]}
    missing = {side: reason for side, reason in result["not_installed"].items() if side not in sides}
    lines = [*result["measurements"], *kept]
    return {**result, "versions": versions, "not_installed": missing, "earlier": earlier, "measurements": lines}


def run_rows(args: argparse.Namespace) -> Iterator[tuple[str, dict[str, Any]]]:
    """Row by row, each with its result as soon as it is there."""
    if args.render:
        return
    venvs, missing = prepare_sides(args.peers, args.cleanrl)
    for row in (*ROWS, SOLVE_ROW):
        if row.key in args.rows:
            yield row.key, run_row(row, args, venvs, missing)
    if "overhead" in args.rows:
        found = overhead.measure(repeats=2 if args.quick else 10, seconds=2.0 if args.quick else 40.0)
        yield "overhead", {**provenance({OURS: venvs[OURS].versions}), "measurements": found}


def _progress(row: str, found: dict[str, Any]) -> None:
    if "error" in found:
        value = f"failed: {found['error']}"
    elif "steps_per_second" in found:
        value = f"{found['steps_per_second']:>10,.0f} steps/s"
    else:
        value = f"{found['seconds']:.2f} s" if found["seconds"] is not None else "not solved"
    print(
        f"{row:12} {found['entry']:16} {found['threads']} thr  rep {found['rep']}  {value}", file=sys.stderr, flush=True
    )


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare", description="Speed against other libraries.")
    parser.add_argument("--rows", nargs="+", choices=NAMES, default=list(NAMES), help="which rows (default: all)")
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=PEERS, help="which libraries")
    parser.add_argument("--only-peers", action="store_true", help="keep RLStudio's stored numbers")
    parser.add_argument("--cleanrl", type=Path, metavar="PATH", help="measure CleanRL too: a clone of its repository")
    parser.add_argument("--reps", type=int, help="repetitions of a rate, instead of the row's; the median counts")
    parser.add_argument("--seconds", type=float, help="least length of a rate's window, instead of the row's")
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2], help="thread counts; the better one counts")
    parser.add_argument("--seeds", type=int, default=10, help="seeds a side for the time to 475")
    parser.add_argument("--quick", action="store_true", help="one short repetition of everything; writes nothing")
    parser.add_argument("--render", action="store_true", help="only write the tables again, from stored results")
    args = parser.parse_args(argv)
    if args.cleanrl is not None and not (args.cleanrl / "cleanrl" / "ppo.py").is_file():
        parser.error(f"--cleanrl {args.cleanrl}: no cleanrl/ppo.py there; name a clone of CleanRL's repository")
    if args.quick:
        args.reps, args.seconds, args.threads, args.seeds = 1, 1.0, [1], 1
    return args


def main() -> None:
    args = arguments()
    results = {}
    for name, result in run_rows(args):
        results[name] = result
        if not args.quick:
            whole = result if name == "overhead" else with_stored(result, read_result(f"speed_{name}"))
            write_result(f"speed_{name}", whole)  # at once: a later row may be interrupted
    print(render.report(results) if args.quick else render.write_page())


if __name__ == "__main__":
    main()
