"""A run that `rlctl launch` and `rlctl resume` train, in processes that are killed with SIGKILL at random moments.

A kill counts when it hit a living run that had trained since its last start: the process was there to be killed, the
status file still says RUNNING, was written by that process, and names more gradient steps than the checkpoint that the
process started from.

Processes are forked from one that has imported everything, which saves the seconds of importing torch. Environment
workers are recognised by a variable that they inherit.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from benchmarks.kill_cases import KillCase
from benchmarks.trees import CommandFailed, metric_records, run_folder
from rlstudio.cli.app import main as rlctl

MARK = "RLSTUDIO_KILLS_PROCESS"
PATIENCE_S = 600.0
"""Only there to end a hang: no result depends on it."""

POLL_S = 0.02


def fork_rlctl(arguments: list[str], folder: Path) -> BaseProcess:
    """The command in a forked process; its output goes to `folder/rlctl.log`, its temporary files to `folder/tmp`."""
    (folder / "tmp").mkdir(parents=True, exist_ok=True)

    def act() -> None:
        with (folder / "rlctl.log").open("ab") as log:
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
        os.environ |= {MARK: str(folder), "TMPDIR": str(folder / "tmp")}
        tempfile.tempdir = None
        os._exit(rlctl(arguments))

    process = multiprocessing.get_context("fork").Process(target=act, daemon=True)
    process.start()
    return process


def succeed(process: BaseProcess, folder: Path) -> None:
    """Wait for the end of the process; an error where it failed."""
    process.join(PATIENCE_S)
    if process.is_alive():
        process.kill()
        process.join()
        raise CommandFailed(f"no end within {PATIENCE_S:.0f} s")
    if process.exitcode:
        lines = (folder / "rlctl.log").read_text().strip().splitlines() or [f"exit status {process.exitcode}"]
        raise CommandFailed(lines[-1])


@dataclass(frozen=True)
class Ending:
    """What a finished run left, as far as it may not depend on when it was killed."""

    state_hash: str
    exact: bool
    eval_return: float | None
    metrics: list[tuple[int, str, str, tuple[str, ...]]]
    seconds: float


@dataclass
class Attempt:
    """One run with its kills. `difference` is empty where the end is the twin's."""

    kills: list[dict[str, Any]] = field(default_factory=list)
    missed: int = 0
    difference: str = ""


class KilledRun:
    """A run of one case in a folder of its own."""

    def __init__(self, case: KillCase, folder: Path) -> None:
        self.case, self.folder, self.runs_dir = case, folder, folder / "runs"
        self.file = folder / "experiment.yaml"
        folder.mkdir(parents=True)
        self.file.write_text(json.dumps(case.experiment))  # JSON is YAML

    def start(self) -> BaseProcess:
        """Launch the run, or resume it where it is there already."""
        begin = ["resume", "last"] if self.status() else ["launch", "-f", str(self.file)]
        return fork_rlctl([*begin, "--runs-dir", str(self.runs_dir), "-q"], self.folder)

    def finish(self) -> Ending:
        """Train to the end, undisturbed."""
        succeed(self.start(), self.folder)
        return self.ending()

    def kill(self, chance: random.Random, twin: Ending, share: float) -> dict[str, Any] | None:
        """Start, wait until it has trained, and kill at a random moment of this share of what is left. None where it
        missed."""
        before = self.trained()
        process = self.start()
        status = self._wait_until(process, before, epoch=0)
        if status is not None:
            total, reached = status["total_epochs"], status["epoch"]
            self._wait_until(process, before, epoch=reached + round(chance.uniform(0, share) * (total - reached)))
            process.join(chance.uniform(0, 2 * twin.seconds / total))  # anywhere within an epoch, or in the next
            process.kill()
        process.join()
        self._wait_until_alone()
        if process.exitcode != -signal.SIGKILL:
            succeed(process, self.folder)
            return None
        status = self.status()
        if status["state"] != "RUNNING" or status["pid"] != process.pid or status["gradient_steps"] <= before:
            return None
        return {"from": before, "gradient_steps": status["gradient_steps"], "epoch": status["epoch"]}

    def _wait_until(self, process: BaseProcess, before: int, epoch: int) -> dict[str, Any] | None:
        """The status once this process has trained and the run has reached the epoch; None where it ended first."""
        while process.is_alive():
            status = self.status()
            is_training = status and status["pid"] == process.pid and status["gradient_steps"] > before
            if is_training and status["epoch"] >= epoch:
                return status
            time.sleep(POLL_S)
        return None

    def _wait_until_alone(self) -> None:
        """Environment workers notice that their parent is gone and end by themselves."""
        end = time.monotonic() + PATIENCE_S
        while left := list(self.processes()):
            if time.monotonic() > end:
                raise CommandFailed(f"processes {left} are left of a killed run")
            time.sleep(POLL_S)

    def processes(self) -> Iterator[int]:
        """Those that a process of this run started."""
        wanted = f"{MARK}={self.folder}".encode()
        for entry in Path("/proc").glob("[0-9]*/environ"):
            try:
                if wanted in entry.read_bytes().split(b"\0"):
                    yield int(entry.parent.name)
            except OSError:
                continue  # it ended meanwhile, or is another user's

    # -- what is on disk --------------------------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """As the file says it; empty before there is one."""
        for file in self.runs_dir.glob("2*/status.json"):
            status: dict[str, Any] = json.loads(file.read_text())
            return status
        return {}

    def trained(self) -> int:
        """Gradient steps of the newest checkpoint, from which the next process goes on."""
        manifests = sorted(self.runs_dir.glob("2*/checkpoints/step-*/MANIFEST.json"))
        return int(json.loads(manifests[-1].read_text())["gradient_steps"]) if manifests else 0

    def left_over(self) -> list[str]:
        """Temporary files and journals that a finished run must not leave anywhere."""
        runs = [path for path in self.runs_dir.rglob("*") if path.name.startswith((".tmp-", ".trash-"))]
        journals = [path for path in self.runs_dir.rglob("store.db-*") if path.stat().st_size]
        return sorted(path.name for path in [*runs, *journals, *(self.folder / "tmp").rglob("*")])

    def ending(self) -> Ending:
        status, folder = self.status(), run_folder(self.runs_dir)
        if status["state"] != "COMPLETED":
            raise CommandFailed(f"the run is {status['state']}")
        events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
        times = {event["kind"]: event["ts"] for event in events}
        metrics = [
            (record["step"], record["key"], repr(record["value"]), tuple(record["tags"]))  # repr: 0.0 is not -0.0
            for record in metric_records(folder)
            if "clock" not in record["tags"]
        ]
        seconds = times["completed"] - times["running"]
        return Ending(status["state_hash"], status["exact"], status["eval_return"], metrics, seconds)


def difference(one: Ending, twin: Ending) -> str:
    """The first thing in which a run differs from its twin, in words; empty where the two are equal."""
    if not one.exact:
        return "the run says that it is not exact"
    for number, (mine, theirs) in enumerate(zip_longest(one.metrics, twin.metrics)):
        if mine != theirs:
            return f"metric {number}: {theirs} -> {mine}"
    if one.state_hash != twin.state_hash:
        return f"state_hash {twin.state_hash[:12]} -> {one.state_hash[:12]}"
    if one.eval_return != twin.eval_return:
        return f"eval_return {twin.eval_return} -> {one.eval_return}"
    return ""


def killed_to_the_end(run: KilledRun, twin: Ending, kills: int, chance: random.Random) -> Attempt:
    """Kill so many times, let it finish, and compare. A kill that missed ends it: the run may be over."""
    attempt = Attempt()
    try:
        while len(attempt.kills) < kills and not attempt.missed:
            kill = run.kill(chance, twin, share=1 / (kills - len(attempt.kills)))
            if kill is None:
                attempt.missed += 1
            else:
                attempt.kills.append(kill)
        ending = run.ending() if run.status()["state"] == "COMPLETED" else run.finish()
        attempt.difference = difference(ending, twin)
        if not attempt.difference and (left := run.left_over()):
            attempt.difference = f"left over: {', '.join(left)}"
    except CommandFailed as error:
        attempt.difference = str(error)
    return attempt
