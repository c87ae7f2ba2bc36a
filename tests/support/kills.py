"""Runs in child processes that are killed -9 at random moments and resumed until they are done."""

import random
import time
from pathlib import Path

from support.processes import in_child
from support.tiny_runs import only_run, run_to_the_end


def kill_until_done(cfg, runs_dir: Path, kills: int, span: float, seed: int) -> int:
    """Kill at random moments up to `kills` times, then let it finish. Returns how many kills hit a living run."""
    chance, hits = random.Random(seed), 0
    for _ in range(kills):
        hits += in_child(lambda: run_to_the_end(cfg, runs_dir), kill_after=chance.uniform(0.0, span)) == 9
    assert in_child(lambda: run_to_the_end(cfg, runs_dir)) == 0
    return hits


def timed_reference(cfg, runs_dir: Path):
    started = time.monotonic()
    assert in_child(lambda: run_to_the_end(cfg, runs_dir)) == 0
    return only_run(runs_dir), time.monotonic() - started
