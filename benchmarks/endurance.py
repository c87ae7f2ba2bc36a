"""Half an hour of training that must leave nothing behind: `make soak`, `python -m benchmarks.endurance --minutes 30`.

DQN and PPO train in turns of equal length, each with two worker processes, of which one is killed (SIGKILL) every
minute, and with a checkpoint every five seconds, while a reader asks for the list of runs and the checkpoints every
second. After a fifth of each turn everything that is counted should stay what it is.

    lost         env steps and epochs that are missing or twice in the metrics, checkpoints that do not verify,
                 kills that did not come back
    leaked       descriptors, threads, children, shared memory, temporary files: the median of the last fifth over
                 that of the second fifth; connections to the store are a pool that fills when threads first meet, and
                 count from its size on
    memory       MB a minute: the upper end of the 95 % interval of the slope, by least squares over means of 10 s
    speed        env steps a second in the last quarter over those in the first after the warm-up

Exit status 1 where one is beyond its bound.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.page import table
from rlstudio import orchestrator
from rlstudio.experiment.checkpoint.checkpoints import Checkpoints
from rlstudio.experiment.metrics.reader import read_metrics
from rlstudio.experiment.run.session import Session
from rlstudio.experiment.training.machine import set_threads

TRAIN: dict[str, dict[str, Any]] = {
    "dqn": {"learning_starts": 1000, "train_every": 4, "batch_size": 64, "steps_per_epoch": 2048},
    "ppo": {"rollout_steps": 64, "batch_size": 64, "passes": 2, "steps_per_epoch": 2048},
}
COUNTED = ("descriptors", "threads", "children", "shared memory", "temporary files")
POOL = 5
"""Connections to the store that SQLAlchemy keeps open."""

MB_PER_MINUTE = 1.0
SLOWEST = 0.8
WARM_UP = 0.2
KILL_EVERY = 60.0


class Sample(NamedTuple):
    seconds: float
    env_steps: int
    mb: float
    counts: tuple[int, ...]


class Endured(NamedTuple):
    algo: str
    env_steps: int
    kills: int
    lost: list[str]
    leaked: dict[str, float]
    slope: float  # MB a minute, the upper end of its interval
    speed: float

    @property
    def is_whole(self) -> bool:
        return not self.lost and not any(self.leaked.values()) and self.slope <= MB_PER_MINUTE and self.speed >= SLOWEST


def config(algo: str) -> dict[str, Any]:
    return {
        "name": f"endurance-{algo}",
        "env": {"id": "CartPole-v1", "num_envs": 4, "seed": 1, "max_episode_steps": 100},
        "policy": {"algo": algo, "network": {"hidden_sizes": [32]}},
        "train": {**TRAIN[algo], "epochs": 1_000_000},
        "buffer": {"capacity": 20_000},
        "rollout": {"workers": 2, "backend": "process", "max_restarts": 1000},
        "ckpt": {"every_seconds": 5},
        "eval": {"every_epochs": 0, "final_episodes": 1},
    }


def descriptors(folder: Path = Path("/proc/self/fd")) -> int:
    names = []
    for link in folder.iterdir():
        with suppress(FileNotFoundError):  # that of the listing itself
            names.append(os.readlink(link))
    pooled = sum(Path(name).name == "store.db" for name in names)
    return len(names) - min(pooled, POOL)


def sample(session: Session, started: float, runs: Path) -> Sample:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    counts = (
        descriptors(),
        len(os.listdir("/proc/self/task")),
        len(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()),
        sum(name.startswith(("rlstudio", "psm_")) for name in os.listdir("/dev/shm")),
        sum(1 for _ in runs.rglob(".tmp-*")),
    )
    seconds = time.monotonic() - started
    return Sample(seconds, session.trainer.source.env_steps, pages * os.sysconf("SC_PAGE_SIZE") / 2**20, counts)


def read_everything(runs: Path, session: Session) -> None:
    """As a server and a second terminal would."""
    orchestrator.runs(runs_dir=runs)
    Checkpoints(session.folder.path, session.folder.id, lease=None).list()


def endure(algo: str, minutes: float) -> Endured:
    with tempfile.TemporaryDirectory() as place:
        runs, samples, kills = Path(place), [], 0
        started = looked = killed = time.monotonic()
        with orchestrator.session(config(algo), runs_dir=runs) as session:
            for _ in session:
                now = time.monotonic()
                if now - looked >= 1.0:
                    looked = now
                    read_everything(runs, session)
                    samples.append(sample(session, started, runs))
                if now - killed >= KILL_EVERY and now - started < 60 * minutes - KILL_EVERY / 2:
                    killed, kills = now, kills + 1
                    os.kill(session.runtime.crew._hosts[kills % 2].pid, signal.SIGKILL)  # type: ignore[attr-defined]
                if now - started >= 60 * minutes:
                    break
            folder, steps = session.folder, session.trainer.source.env_steps
        return judged(algo, samples, lost(folder, kills), kills, steps)


def lost(folder: Any, kills: int) -> list[str]:
    missing = []
    epochs = [record.step for record in read_metrics(folder.path, keys={"rollout/episodes"})]
    expected = TRAIN["dqn"]["steps_per_epoch"]
    gaps = [(one, other) for one, other in pairwise(epochs) if not 0 < other - one <= 2 * expected]
    if gaps or not epochs:
        missing.append(f"epochs {gaps[:3]}")
    reader = Checkpoints(folder.path, folder.id, lease=None)
    newest = reader.newest_good()
    if newest is None or newest.rejected:
        missing.append("checkpoints that do not verify")
    back = sum(event["kind"] == "env_restarted" for event in folder.events())
    if back < kills - 1:  # the last one may be reported with an epoch that did not end
        missing.append(f"{kills - back} of {kills} killed workers")
    return missing


def judged(algo: str, samples: Sequence[Sample], missing: list[str], kills: int, steps: int) -> Endured:
    end = samples[-1].seconds
    early = [one for one in samples if WARM_UP <= one.seconds / end < 2 * WARM_UP]
    late = [one for one in samples if one.seconds / end >= 1 - WARM_UP]
    leaked = {
        name: float(np.median([one.counts[n] for one in late]) - np.median([one.counts[n] for one in early]))
        for n, name in enumerate(COUNTED)
    }
    steady = [one for one in samples if one.seconds / end >= WARM_UP]
    return Endured(algo, steps, kills, missing, leaked, slope_of(steady), speed_of(steady))


def slope_of(samples: Sequence[Sample]) -> float:
    """Samples of one second hang together, so means of ten are taken for independent."""
    groups = np.array_split(np.array([[one.seconds / 60, one.mb] for one in samples]), max(len(samples) // 10, 3))
    minutes, mb = np.array([group.mean(0) for group in groups]).T
    slope, offset = np.polyfit(minutes, mb, 1)
    residuals = mb - slope * minutes - offset
    error = np.sqrt(residuals @ residuals / max(len(mb) - 2, 1) / ((minutes - minutes.mean()) ** 2).sum())
    return float(slope + 1.96 * error)


def speed_of(samples: Sequence[Sample]) -> float:
    quarter = max(len(samples) // 4, 1)
    first, last = samples[: quarter + 1], samples[-quarter - 1 :]
    rates = [(part[-1].env_steps - part[0].env_steps) / (part[-1].seconds - part[0].seconds) for part in (first, last)]
    return rates[1] / rates[0]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0)
    minutes = parser.parse_args(arguments).minutes
    set_threads(1)
    print(table(["run", "env steps", "kills", "lost", "leaked", "MB a minute, at most", "speed at the end"], []))
    ends = []
    for algo in TRAIN:
        end = endure(algo, minutes / len(TRAIN))
        ends.append(end)
        leaked = ", ".join(f"{count:+g} {name}" for name, count in end.leaked.items() if count) or "0"
        said = "; ".join(end.lost) or "0"
        print(
            f"| {algo} | {end.env_steps:,} | {end.kills} | {said} | {leaked} | {end.slope:.2f} | {end.speed:.0%} |",
            flush=True,
        )
    print("as it should be" if all(end.is_whole for end in ends) else "NOT as it should be")
    return 0 if all(end.is_whole for end in ends) else 1


if __name__ == "__main__":
    sys.exit(main())
