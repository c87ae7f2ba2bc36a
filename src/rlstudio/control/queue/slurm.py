"""Runs as jobs of Slurm: `resources.backend: slurm`. A job trains one run, and when it is requeued it goes on with it.

The job's script names the run, so whatever starts it again resumes: Slurm after a preemption or the loss of a node
(`--requeue`), the script itself shortly before its time limit. Commands: sbatch, squeue, sacct, scancel, scontrol.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlstudio.control.queue.launchers import LauncherConfig, Room
from rlstudio.control.queue.resources_of_runs import KnownResources
from rlstudio.control.queue.runner import AGAIN
from rlstudio.control.runs.folders import folder_of
from rlstudio.control.runs.place import refuse_file
from rlstudio.control.store.records import RunRow
from rlstudio.control.workspace import DATABASE_VARIABLE, Workspace
from rlstudio.core.errors import StorageError, UserError

if TYPE_CHECKING:
    from rlstudio.core.resources import ResourcesConfig

PREFIX = "rlstudio-"
"""Jobs are named after their run: rlstudio-RUN."""

ASK_SECONDS = 5.0
"""Slurm's controller serves everybody: it is asked about all of our jobs at once, and no more often than this."""

COMMAND_SECONDS = 60.0
WARNING_SECONDS = 120
"""So long before its time limit a run is told to save."""

UNKNOWN_CODE = 1

SCRIPT = """#!/bin/bash
{options}
# Started again by Slurm, the run goes on: then it is claimed anew, for its first claim has ended.
token={token}
if [ "${{SLURM_RESTART_COUNT:-0}}" -gt 0 ]; then token={again}; fi
{command} {run_id} "$token" {runs_dir} &
child=$!
requeue=
trap 'kill -TERM "$child"' TERM
trap 'requeue=yes; kill -TERM "$child"' USR1
wait "$child"; code=$?
while kill -0 "$child" 2>/dev/null; do wait "$child"; code=$?; done
if [ -n "$requeue" ] && [ "$code" -ne 0 ]; then exec scontrol requeue "$SLURM_JOB_ID"; fi
exit "$code"
"""


@dataclass(frozen=True)
class Job:
    id: str
    run_id: str
    state: str
    nodes: str


def slurm_launcher(cfg: LauncherConfig, workspace: Workspace) -> SlurmLauncher:
    """A job of Slurm."""
    return SlurmLauncher(workspace, KnownResources(workspace.store).of)


class SlurmLauncher:
    def __init__(self, workspace: Workspace, resources: Callable[[RunRow], ResourcesConfig]) -> None:
        self._workspace = workspace
        self._resources = resources
        self._queue = JobQueue()
        self.away: str | None = None  # sbatch itself says what is wrong

    def room(self, run: RunRow, beside: Sequence[RunRow]) -> Room:
        """Slurm has a queue of its own. A run whose job is still there, to be started again, is not submitted twice."""
        try:
            return Room.THERE if any(job.run_id == run.id for job in self._queue.jobs()) else Room.NOW
        except (UserError, StorageError):
            return Room.NOW  # `launch` says what is wrong

    def launch(self, run: RunRow, devices: Sequence[int]) -> SlurmProcess:
        database = self._workspace.store.database
        if not database.is_server:
            refuse_file(database.where, "Slurm starts runs on other machines")
        folder = folder_of(self._workspace, run)
        script = self.script(run, str(folder.log_path))
        variables = {**os.environ, "PYTHONUNBUFFERED": "1", DATABASE_VARIABLE: self._workspace.url}
        answer = _ask(["sbatch", "--parsable"], given=script, variables=variables)
        self._queue.forget()
        return SlurmProcess(answer.strip().partition(";")[0], self._queue)

    def script(self, run: RunRow, log: str) -> str:
        asked = self._resources(run)
        options = {
            "job-name": f"{PREFIX}{run.id}",
            "output": quoted(log),
            "open-mode": "append",
            "requeue": None,
            "signal": f"B:USR1@{WARNING_SECONDS}",
            "ntasks": 1,
            "cpus-per-task": run.cpus,
            **({"gpus": run.gpus} if run.gpus else {}),
            **({"mem": f"{run.memory_mb}M"} if run.memory_mb else {}),
            **({"partition": asked.partition} if asked.partition else {}),
            **({"account": asked.account} if asked.account else {}),
            **({"time": asked.time_limit} if asked.time_limit else {}),
        }
        lines = [f"#SBATCH --{name}" + ("" if value is None else f"={value}") for name, value in options.items()]
        return SCRIPT.format(
            options="\n".join(lines),
            token=run.token,
            again=AGAIN,
            command=shlex.join([sys.executable, "-P", "-m", "rlstudio.control.queue.runner"]),
            run_id=run.id,
            runs_dir=shlex.quote(str(self._workspace.runs_dir)),
        )


def quoted(path: str) -> str:
    """A path as sbatch reads it in an option of a script: a space ends an option, a percent sign stands for a name of
    Slurm's. A line break would begin a line of the script."""
    if "\n" in path or "\r" in path:
        raise UserError(f"{path!a}: a script of Slurm cannot name a path with a line break; rename the folder")
    text = path.replace("%", "%%")
    return text if re.fullmatch(r"[\w./%+:=@,-]+", text) else '"' + re.sub(r'(["\\])', r"\\\1", text) + '"'


class SlurmProcess:
    """A job. `pid` is this process's own: the run's process is on another machine."""

    def __init__(self, job_id: str, queue: JobQueue) -> None:
        self.pid = os.getpid()
        self.job_id = job_id
        self._queue = queue
        self._code: int | None = None

    def poll(self) -> int | None:
        if self._code is None and self._is_over():
            self._code = exit_code(self.job_id)
        return self._code

    def _is_over(self) -> bool:
        try:
            return all(job.id != self.job_id for job in self._queue.jobs())
        except (UserError, StorageError):  # Slurm is away: nobody knows
            return False

    def withdraw(self) -> None:
        with suppress(UserError, StorageError):  # asked again at the next tick
            _ask(["scancel", self.job_id])
        self._queue.forget()


class JobQueue:
    """Our jobs that wait or run, as Slurm listed them at most `ASK_SECONDS` ago."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._jobs: list[Job] = []
        self._asked_at: float | None = None

    def jobs(self) -> list[Job]:
        if self._asked_at is None or self._clock() - self._asked_at >= ASK_SECONDS:
            self._jobs = list_jobs()
            self._asked_at = self._clock()
        return self._jobs

    def forget(self) -> None:
        """Ask again next time: something was submitted or cancelled."""
        self._asked_at = None


def list_jobs() -> list[Job]:
    answer = _ask(["squeue", "--me", "--noheader", "--format=%i|%j|%T|%N"])
    rows = [line.split("|") for line in answer.splitlines() if line.count("|") == 3]
    return [Job(job, name.removeprefix(PREFIX), state, at) for job, name, state, at in rows if name.startswith(PREFIX)]


def exit_code(job_id: str) -> int:
    """Of a job that has ended; a cluster that keeps no accounts cannot say."""
    try:
        options = ("--allocations", "--noheader", "--parsable2", "--format=State,ExitCode")
        answer = _ask(["sacct", "--jobs", job_id, *options])
        state, _, codes = answer.strip().partition("\n")[0].partition("|")
        code, number = (int(part) for part in codes.split(":"))
    except (UserError, StorageError, ValueError):
        return UNKNOWN_CODE
    return (128 + number if number else code) or int(not state.startswith("COMPLETED"))


def _ask(command: Sequence[str], given: str = "", variables: dict[str, str] | None = None) -> str:
    """Run a command of Slurm; returns what it printed."""
    try:
        done = subprocess.run(
            command, input=given, env=variables, capture_output=True, text=True, check=False, timeout=COMMAND_SECONDS
        )
    except FileNotFoundError:
        needed = f"resources.backend: slurm needs {command[0]}, which is not on the PATH"
        raise UserError(f"{needed}; launch on a machine of the cluster") from None
    except subprocess.TimeoutExpired:
        raise StorageError(f"{command[0]}: Slurm has not answered for {COMMAND_SECONDS:g} s; try again") from None
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [f"ended with code {done.returncode}"]
        raise StorageError(f"{command[0]}: {lines[-1].removeprefix(f'{command[0]}: ')}")
    return done.stdout
