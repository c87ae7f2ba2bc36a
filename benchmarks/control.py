"""What the control plane costs: `python -m benchmarks.control`.

- 50 short runs on two slots, from the queue, against a two-way shell loop of `rlctl launch` with the same runs; who
  goes first alternates.
- `rlctl ls` and `rlctl show` where there are 10,000 runs, as whole processes.

Raw numbers go to `benchmarks/results/control.json`, the table to `docs/benchmarks.md`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from sqlalchemy import insert

from benchmarks.page import replace_between, table
from benchmarks.records import provenance, read_result, write_result
from benchmarks.settings import OURS
from benchmarks.venvs import ROOT, ours
from rlstudio.control.store.schema import events, runs
from rlstudio.control.workspace import Workspace
from rlstudio.core.run_state import RunState

PAGE = ROOT / "docs" / "benchmarks.md"
RLCTL = str(Path(sys.executable).parent / "rlctl")
EXPERIMENT = ("-f", "configs/ppo/cartpole.yaml", "train.epochs=4", "eval.every_epochs=0", "eval.final_episodes=5")
KNOWN = 10_000
POLL_SECONDS = 0.05


def shell_loop(place: Path, count: int) -> None:
    """What one does without a scheduler."""
    seeds = "\n".join(map(str, range(1, count + 1)))
    command = ["xargs", "-P", "2", "-I{}", RLCTL, "launch", *EXPERIMENT, "--seed", "{}", "-q"]
    subprocess.run(command, input=seeds, text=True, cwd=place, check=True, capture_output=True)


def queue(place: Path, count: int) -> None:
    """From the command that launches them all to the end of the last."""
    command = [RLCTL, "launch", *EXPERIMENT, "--seed", "1", "--seeds", str(count), "--detach", "-q"]
    subprocess.run(command, cwd=place, check=True, capture_output=True)
    store = Workspace(place / "runs").store
    while len(store.runs(states={RunState.COMPLETED})) < count:
        time.sleep(POLL_SECONDS)
    store.database.close()


def timed(work: Callable[[Path, int], None], count: int) -> float:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        started = time.perf_counter()
        work(Path(place), count)
        return time.perf_counter() - started


def filled(place: Path) -> str:
    """A store with many runs of the past; returns the id of one of them."""
    store = Workspace(place / "runs").store
    ids = [f"20260101-{index:09d}-ppo-cartpole-v1-{index % 65536:04x}" for index in range(KNOWN)]
    done = {"state": "COMPLETED", "version": 1, "algo": "ppo", "env_id": "CartPole-v1", "config_yaml": "{}"}
    moment = {"created_at": "2026-01-01T00:00:00.000+00:00", "updated_at": "2026-01-01T00:00:00.000+00:00"}
    with store.database.write() as connection:
        rows = [{"id": run_id, "name": f"name_{index % 100}", **done, **moment} for index, run_id in enumerate(ids)]
        connection.execute(insert(runs), rows)
        connection.execute(insert(events), [{"run_id": run_id, "version": 1, "state": "QUEUED"} for run_id in ids])
    store.database.close()
    return ids[KNOWN // 2]


def answers(reps: int) -> dict[str, list[float]]:
    """Seconds of whole commands, from the start of the process to its end."""
    with tempfile.TemporaryDirectory() as place:
        run_id = filled(Path(place))
        commands = {"ls": ["ls"], "show": ["show", run_id], "show NAME": ["show", "name_7"], "queue": ["queue"]}
        found: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(reps):
            for name, command in commands.items():
                started = time.perf_counter()
                subprocess.run([RLCTL, *command], cwd=place, check=True, capture_output=True)
                found[name].append(time.perf_counter() - started)
        return found


def measured_runs(count: int, reps: int) -> dict[str, list[float]]:
    """Seconds of both ways, in turns."""
    found: dict[str, list[float]] = {"shell": [], "queue": []}
    for rep in range(reps):
        ways = [("shell", shell_loop), ("queue", queue)]
        for name, work in ways if rep % 2 == 0 else ways[::-1]:
            found[name].append(timed(work, count))
            print(f"{name:6} {found[name][-1]:.1f} s", file=sys.stderr, flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.control", description="What the control plane costs.")
    parser.add_argument("--runs", type=int, default=50, help="short runs of one measurement")
    parser.add_argument("--reps", type=int, default=3, help="measurements of each way")
    parser.add_argument("--commands", action="store_true", help="measure the commands alone; the runs stay as stored")
    args = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    stored = read_result("control") if args.commands else None
    runs = {"runs": args.runs, "seconds": measured_runs(args.runs, args.reps)} if stored is None else stored
    commands = answers(10)
    told = {"runs": runs["runs"], "seconds": runs["seconds"], "commands": commands}
    write_result("control", {**told, **provenance({OURS: ours().versions})})
    text = page(runs["runs"], runs["seconds"], commands)
    replace_between(PAGE, "control", text)
    print(text)


def page(count: int, found: dict[str, list[float]], commands: dict[str, list[float]]) -> str:
    ratio = median(found["queue"]) / median(found["shell"])
    waits = {"ls": 0.5, "show": 0.4}
    rows = [
        [f"{count} short runs, two-way shell loop of `rlctl launch`", f"{median(found['shell']):.1f} s", "", ""],
        [
            f"the same from the queue, two slots ({ratio:.2f} of it)",
            f"{median(found['queue']):.1f} s",
            "<= 1.03 of it",
            "yes" if ratio <= 1.03 else "no",
        ],
    ]
    for name, seconds in commands.items():
        wanted = waits.get(name)
        met = "" if wanted is None else "yes" if median(seconds) < wanted else "no"
        rows.append(
            [f"`rlctl {name}`, {KNOWN:,} runs", f"{median(seconds):.2f} s", f"< {wanted} s" if wanted else "", met]
        )
    return table(["what", "median", "wanted", "met"], rows)


if __name__ == "__main__":
    main()
