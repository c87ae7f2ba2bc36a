"""What survives when everything is hit at random? `python -m benchmarks.chaos -f cfg.yaml --minutes 5 --seed 0`.

Runs of the experiment, one seed after the other, wait in a queue that a worker serves. For so many minutes, every few
seconds one thing happens that the seed chooses: a run or the worker is killed, a run is stopped for a while (as by a
debugger, or by its user), the disk fills, a bit of a checkpoint flips, a file is cut, or another process holds the
store. Then all is let go, and every run is trained to its end, or stopped where it stands.

A run has survived when it completed with the `state_hash` of its twin that nobody disturbed, or ended with a reason.
The queue has survived when the store is whole, and nothing is left over: no process, no lock, no temporary file. The
disk that fills is a small one of its own, for which this needs to be root (`unshare -m`); without, it is left out.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.page import table
from benchmarks.trees import Tree
from benchmarks.venvs import ROOT
from rlstudio.control.workspace import Entry, Workspace
from rlstudio.core.errors import StorageError
from rlstudio.core.host.process import is_gone
from rlstudio.core.run_state import OWNED, RunState

APART = "RLSTUDIO_CHAOS_APART"
DISK_MIB = 384
PAUSE_S = (2.0, 6.0)
"""Between two things that happen."""

SETTINGS = ("resources.retries=1000", "ckpt.every_seconds=2", "resources.cpus=1")
"""So that a run is not given up, and has checkpoints to be damaged."""

SURVIVED, ENDED, DIFFERENT, LOST = "as if undisturbed", "ended with a reason", "DIFFERENT", "LOST"


@dataclass
class Chaos:
    """A queue, its worker, and what is done to them."""

    place: Path
    experiment: Path
    slots: int
    rng: random.Random
    has_disk: bool
    done: Counter[str] = field(default_factory=Counter)
    seeds: int = 0
    worker: subprocess.Popen[bytes] | None = None

    def __post_init__(self) -> None:
        self.tree = Tree(ROOT, "chaos")
        self.runs_dir = self.place / "runs"
        self.workspace = Workspace(self.runs_dir)
        self.kinds: dict[str, Callable[[], bool]] = {
            "run killed": self.kill_run,
            "worker killed": self.kill_worker,
            "run frozen for a while": self.freeze_run,
            "run stopped and resumed": self.stop_run,
            "bit of a checkpoint flipped": self.corrupt,
            "file cut": self.cut,
            "store held by another": self.hold_store,
            **({"disk filled": self.fill_disk} if self.has_disk else {}),
        }

    # -- the queue --------------------------------------------------------------------------------------------------

    def rlctl(self, *arguments: str) -> str:
        return self.tree.rlctl(*arguments, "--runs-dir", str(self.runs_dir), place=self.place)

    def start_worker(self) -> None:
        command = self.tree.command("worker", "--slots", f"cpu={self.slots}", "--runs-dir", str(self.runs_dir))
        log = (self.place / "worker.log").open("ab")
        with log:
            self.worker = subprocess.Popen(
                command, cwd=self.place, env=self.tree.environment(self.place), stdout=log, stderr=log
            )

    def entries(self) -> list[Entry]:
        try:
            return self.workspace.entries()
        except StorageError:
            return []  # held by another, or on a full disk

    def running(self) -> list[Entry]:
        return [entry for entry in self.entries() if entry.status.state == RunState.RUNNING and entry.status.env_steps]

    def launch(self) -> None:
        """So many runs that none of the slots is ever free."""
        waiting = [entry for entry in self.entries() if entry.status.state in {*OWNED, RunState.QUEUED}]
        for _ in range(self.slots + 1 - len(waiting)):
            options = ["--name", f"seed-{self.seeds}", f"env.seed={self.seeds}", *SETTINGS]
            self.rlctl("launch", "-f", str(self.experiment), "--detach", "-q", *options)
            self.seeds += 1

    # -- what happens -----------------------------------------------------------------------------------------------

    def strike(self) -> str | None:
        """One thing; None where there was nothing that it could happen to."""
        name = self.rng.choice(list(self.kinds))
        if not self.kinds[name]():
            return None
        self.done[name] += 1
        return name

    def _victim(self) -> Entry | None:
        running = self.running()
        return self.rng.choice(running) if running else None

    def kill_run(self) -> bool:
        victim = self._victim()
        return victim is not None and _send(victim, signal.SIGKILL)

    def kill_worker(self) -> bool:
        assert self.worker is not None
        self.worker.kill()
        self.worker.wait()
        self.start_worker()
        return True

    def freeze_run(self) -> bool:
        victim = self._victim()
        if victim is None or not _send(victim, signal.SIGSTOP):
            return False
        time.sleep(self.rng.uniform(1, 8))
        _send(victim, signal.SIGCONT)
        return True

    def stop_run(self) -> bool:
        victim = self._victim()
        if victim is None:
            return False
        with suppress(Exception):  # it may just have ended, and then there is nothing to resume
            self.rlctl("stop", victim.id)
            self.rlctl("resume", victim.id, "--detach")
        return True

    def corrupt(self) -> bool:
        return self._damage("checkpoints/step-*/*", self._flip)

    def cut(self) -> bool:
        return self._damage("*.json*", lambda file: os.truncate(file, self.rng.randrange(file.stat().st_size)))

    def _damage(self, files: str, damage: Callable[[Path], None]) -> bool:
        """Of a run that was killed, before anybody goes on with it. The newest checkpoint is hit, and an older one is
        left; of the other files one that a run can do without."""
        assert self.worker is not None
        victim = self._victim()
        if victim is None or not _send(victim, signal.SIGKILL):
            return False
        self.worker.send_signal(signal.SIGSTOP)
        try:
            folder = self.runs_dir / victim.id
            found = sorted(file for file in folder.glob(files) if file.is_file() and file.stat().st_size)
            if "step-" in files:
                steps = sorted({file.parent for file in found})
                found = [file for file in found if len(steps) > 1 and file.parent == steps[-1]]
            if found:
                damage(self.rng.choice(found))
            return bool(found)
        finally:
            self.worker.send_signal(signal.SIGCONT)

    def _flip(self, file: Path) -> None:
        with file.open("r+b") as stream:
            place = self.rng.randrange(file.stat().st_size)
            stream.seek(place)
            byte = stream.read(1)[0] ^ (1 << self.rng.randrange(8))
            stream.seek(place)
            stream.write(bytes([byte]))

    def hold_store(self) -> bool:
        file = self.workspace.store_file
        if file is None:
            return False
        held = closing(sqlite3.connect(file, isolation_level=None, timeout=5))
        with held as connection, suppress(sqlite3.OperationalError):
            connection.execute("begin exclusive")
            time.sleep(self.rng.uniform(1, 12))
        return True

    def fill_disk(self) -> bool:
        filler = self.place / "filler"
        with suppress(OSError), filler.open("wb", buffering=0) as stream:
            while True:
                stream.write(bytes(1 << 20))
        time.sleep(self.rng.uniform(4, 10))
        filler.unlink()
        return True

    # -- the end ----------------------------------------------------------------------------------------------------

    def settle(self, patience: float) -> None:
        """Until nothing runs and nothing waits; after so many seconds all are stopped where they stand."""
        until = time.monotonic() + patience
        while any(_goes_on(entry) for entry in self.entries()) and time.monotonic() < until:
            time.sleep(1)
        for entry in self.entries():
            if _goes_on(entry):
                with suppress(Exception):
                    self.rlctl("cancel" if entry.status.state == RunState.QUEUED else "stop", entry.id)
        assert self.worker is not None
        self.worker.terminate()
        self.worker.wait()

    def outcome(self, entry: Entry) -> str:
        status = entry.status
        if status.state != RunState.COMPLETED:
            return ENDED if status.reason and status.state not in {*OWNED, RunState.QUEUED} else LOST
        with tempfile.TemporaryDirectory() as place:  # not on the small disk
            options = [f"env.seed={status.seed}", *SETTINGS, "--runs-dir", f"{place}/runs", "-q"]
            self.tree.rlctl("launch", "-f", str(self.experiment), *options, place=Path(place))
            twin = Workspace(Path(place) / "runs").entries()[0].status
        return SURVIVED if twin.state_hash == status.state_hash else DIFFERENT

    def left_over(self) -> list[str]:
        """What should not be there any more."""
        found = [str(path.relative_to(self.place)) for path in self.runs_dir.rglob(".tmp-*")]
        living = [entry for entry in self.entries() if entry.status.pid and not is_gone(entry.status.process)]
        found += [f"process {entry.status.pid} of {entry.id}" for entry in living]
        if self.workspace.store_file is not None:
            with closing(sqlite3.connect(self.workspace.store_file)) as connection:
                (answer,) = connection.execute("pragma integrity_check").fetchone()
            found += [] if answer == "ok" else [f"store: {answer}"]
        return found


def _goes_on(entry: Entry) -> bool:
    waits = entry.run is not None and entry.run.is_managed and entry.run.may_retry
    return entry.status.state in {*OWNED, RunState.QUEUED} or waits


def _send(entry: Entry, signum: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(entry.status.pid, signum)
        return True
    return False


def in_own_disk(argv: Sequence[str]) -> None:
    """Begin again with mounts of our own, where that is possible; where not, go on without."""
    if APART in os.environ or os.geteuid() != 0 or shutil.which("unshare") is None:
        return
    if subprocess.run(["unshare", "-m", "true"], check=False, capture_output=True).returncode == 0:
        again = [sys.executable, "-m", "benchmarks.chaos", *argv]
        os.execvpe("unshare", ["unshare", "-m", *again], {**os.environ, APART: "1"})


def mounted(place: Path) -> bool:
    options = f"size={DISK_MIB}m,mode=0700"
    command = ["mount", "-t", "tmpfs", "-o", options, "chaos", str(place)]
    return APART in os.environ and subprocess.run(command, check=False, capture_output=True).returncode == 0


def report(done: Counter[str], outcomes: Sequence[tuple[str, str, str]], left_over: Sequence[str]) -> str:
    """What happened, and what survived. `outcomes`: name, how it ended, what that comes to."""
    rows = [[name, str(times)] for name, times in sorted(done.items())]
    lines = [table(["what happened", "times"], rows), ""]
    lines += [table(["run", "end", "outcome"], [list(outcome) for outcome in outcomes]), ""]
    counts = Counter(outcome for _, _, outcome in outcomes)
    counted = ", ".join(f"{counts[outcome]} {outcome}" for outcome in (SURVIVED, ENDED, DIFFERENT, LOST))
    lines.append(
        f"{sum(done.values())} strikes, {len(outcomes)} runs: {counted}. Left over: {', '.join(left_over) or '0'}."
    )
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.chaos", description="What survives, by a seed.")
    parser.add_argument(
        "-f", "--file", type=Path, required=True, help="an experiment; a run of it should take a minute"
    )
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--slots", type=int, default=2, help="runs at a time")
    args = parser.parse_args(argv)
    in_own_disk(sys.argv[1:] if argv is None else argv)
    with tempfile.TemporaryDirectory(prefix="rlstudio-chaos-") as folder:
        place = Path(folder)
        has_disk = mounted(place)
        try:
            chaos = Chaos(place, args.file.resolve(), args.slots, random.Random(args.seed), has_disk)
            chaos.start_worker()
            until = time.monotonic() + 60 * args.minutes
            while time.monotonic() < until:
                chaos.launch()
                time.sleep(chaos.rng.uniform(*PAUSE_S))
                if struck := chaos.strike():
                    print(struck, file=sys.stderr, flush=True)
            chaos.settle(60 * args.minutes)
            ends = [
                (entry.status.name, f"{entry.status.state} {entry.status.reason}".strip(), chaos.outcome(entry))
                for entry in reversed(chaos.entries())
            ]
            left = chaos.left_over()
            print(report(chaos.done, ends, left))
        finally:
            if has_disk:
                subprocess.run(["umount", "-l", str(place)], check=False)
    return int(bool(left) or any(outcome in (DIFFERENT, LOST) for _, _, outcome in ends))


if __name__ == "__main__":
    sys.exit(main())
