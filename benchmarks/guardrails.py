"""Do the guardrails notice what is broken, and nothing else? `python -m benchmarks.guardrails`.

Each fault of `benchmarks/faults.py` is put into small runs of several seeds. It is caught when an incident, or the end
of the run, follows the moment at which it was there first; how many train steps later is counted. Then the advice is
followed as printed: the settings that it names are added while the fault stays, or, where it says to correct the
environment, the environment that it names is put right. A fault has ended when the run completes without going back.

Healthy runs are those of the learning table, `--seconds` of CPU each; one that is rolled back, or has an incident, is
disturbed. Every run is one line of `benchmarks/results/guardrails.jsonl`, so the command can be stopped and started
again; what is there is not run anew, whatever has become of the code since. Exit status 1 where fewer than 48 of 50
faults are caught, the advice ends fewer than 40 of 50, or a healthy run is disturbed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.cells import CELLS, Cell
from benchmarks.faults import BEGIN, FAULTS, Fault, Injection
from benchmarks.learning import append, read_store
from benchmarks.page import replace_between, table
from benchmarks.records import RESULTS, provenance
from benchmarks.settings import OURS
from benchmarks.venvs import ROOT, ours
from rlstudio.core.contracts import Metrics
from rlstudio.core.errors import RLStudioError
from rlstudio.core.run_state import RunState
from rlstudio.experiment.config.experiment import ExperimentConfig, experiment_from, load_experiment, new_run
from rlstudio.experiment.folder.run_folder import RunFolder
from rlstudio.experiment.judging.incidents import NOTICES
from rlstudio.experiment.run.session import Session
from rlstudio.experiment.training.build import build
from rlstudio.experiment.training.machine import set_threads
from rlstudio.experiment.training.position import Position

STORE = RESULTS / "guardrails.jsonl"
PAGE = ROOT / "docs" / "howto" / "gates.md"
SEEDS = 4
SECONDS = 3.0
NOT_RUN = ("ppo_halfcheetah", "ppo_hopper", "ppo_cartpole_novel", "a2c_acrobot", "qrdqn_acrobot", "qrdqn_lunarlander")
"""Cells of the table that are left out: simulators that are optional, worlds that are there with others."""

CAUGHT, ENDED = 48 / 50, 40 / 50
Line = dict[str, Any]


def in_child(act: Callable[[], Line]) -> Line:
    """What `act` returns in a forked process: what a fault patches there is gone with it."""
    read, write = os.pipe()
    if (child := os.fork()) == 0:
        try:
            answer = act()
        except BaseException:
            answer = {"error": traceback.format_exc()}
        with os.fdopen(write, "w") as pipe:
            json.dump(answer, pipe)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    answer = json.loads(text or '{"error": "died"}')
    if "error" in answer:
        raise SystemExit(answer["error"])
    return answer


def opened(cfg: ExperimentConfig, place: str) -> Session:
    built = build(cfg)
    return Session.open(RunFolder.create(Path(place), new_run(cfg)), cfg, built=built)


def incidents(session: Session) -> list[Line]:
    return [event for event in session.folder.events() if event["kind"] == "incident"]


# -- faults -----------------------------------------------------------------------------------------------------------


def trained(fault: Fault, seed: int, advice: Sequence[str] = (), repaired: bool = False) -> Line:
    """One run with the fault in it, as it ended."""
    rng = random.Random(f"{fault.name}/{seed}")
    data = {
        **fault.experiment,
        "env": {**fault.env, "seed": seed},
        "eval": {"every_epochs": 0, "final_episodes": 1},
        "guardrails": {"rollback_every_epochs": 5},
        "ckpt": {"every_seconds": None},
    }
    cfg = experiment_from(data, overrides=[*fault.settings, *advice])
    with tempfile.TemporaryDirectory() as place, opened(cfg, place) as session:
        injection = Injection(session, rng.randrange(*BEGIN), rng.randrange(cfg.env.num_envs), rng)
        if fault.put is None:
            injection.began = 0
        elif not repaired:
            fault.put(injection)
        found, message = noting(injection), ""
        try:
            for _ in session:
                pass
        except RLStudioError as error:
            message = str(error)
            found.append({"at": injection.updates, "rule": session.status.reason, "what": message, "settings": []})
        began, status = injection.began, session.status
        first = next((one for one in found if one["rule"] not in NOTICES), next(iter(found), None))
        return {
            "end": f"{status.state} {status.reason}".strip(),
            "rule": None if first is None else first["rule"],
            "what": message if first is None else first["what"],
            "settings": [] if first is None else first["settings"],
            "caught": first is not None and began is not None and found[0]["at"] >= began,
            "after": None if first is None or began is None else found[0]["at"] - began,
            "rolled_back": sum(event["kind"] == "rolled_back" for event in session.folder.events()),
            "env": injection.env,
        }


def noting(injection: Injection) -> list[Line]:
    """The incidents of the run as they come, with the train step they came after. What is changed here is changed in a
    child that ends with the run."""
    found: list[Line] = []
    add, event = Position.add, RunFolder.event

    def added(self: Position, metrics: Metrics) -> None:
        injection.updates += 1
        add(self, metrics)

    def written(self: RunFolder, kind: str, **facts: Any) -> None:
        if kind == "incident":
            found.append({"at": injection.updates - 1, **facts})
        event(self, kind, **facts)

    Position.add, RunFolder.event = added, written  # type: ignore[method-assign, assignment]
    return found


def tried(name: str, seed: int) -> Line:
    """The fault, and then what its advice makes of it."""
    faults = FAULTS[name]
    fault = faults[seed % len(faults)]
    started = time.process_time()
    line = in_child(lambda: trained(fault, seed))
    if not line["caught"]:
        line["ended"] = "no: it was not caught"
    elif RunState.COMPLETED in line["end"] and line["rule"] not in (NOTICES - {"skipped"}):
        line["ended"] = "by itself"
    elif line["settings"]:
        again = in_child(lambda: trained(fault, seed, advice=line["settings"]))
        line["ended"] = "by settings" if _is_well(again) else f"no: {again['end']} {again['what']}"
    elif fault.in_environment and f"env {'' if fault.everywhere else line['env']}" in line["what"]:
        again = in_child(lambda: trained(fault, seed, repaired=True))
        line["ended"] = "by repair" if _is_well(again) else f"no: {again['end']} {again['what']}"
    else:
        line["ended"] = "no: the advice does not say what to do"
    return {
        **line,
        "fault": fault.name,
        "algo": fault.experiment["policy"]["algo"],
        "cpu_seconds": time.process_time() - started,
    }


def _is_well(line: Line) -> bool:
    return RunState.COMPLETED in line["end"] and not line["rolled_back"]


# -- healthy runs -----------------------------------------------------------------------------------------------------


def healthy(cell: Cell, seconds: float) -> Line:
    cfg = load_experiment(str(ROOT / cell.config), ["env.seed=1", "eval.every_epochs=0", "ckpt.every_seconds=null"])
    started = time.process_time()
    with tempfile.TemporaryDirectory() as place, opened(cfg, place) as session:
        steps = 0, 0
        for tick in session:
            steps = tick.env_steps, tick.gradient_steps
            if time.process_time() - started > seconds:
                break
        found = incidents(session)
        events = [event["kind"] for event in session.folder.events()]
        return {
            "env_steps": steps[0],
            "gradient_steps": steps[1],
            "planned": cfg.train.planned_steps,
            "incidents": [f"{one['rule']}: {one['what']}" for one in found],
            "rolled_back": events.count("rolled_back"),
        }


# -- the command ------------------------------------------------------------------------------------------------------


def cases(seeds: int, seconds: float) -> Iterator[tuple[Line, Callable[[], Line]]]:
    """What there is to run, with the key of its line; by seed, so that an early stop leaves all faults."""
    for seed in range(seeds):
        for name in FAULTS:
            yield {"case": name, "seed": seed}, lambda name=name, seed=seed: tried(name, seed)  # type: ignore[misc]
    for cell in CELLS:
        if cell.key not in NOT_RUN:
            key = {"case": "healthy", "cell": cell.key, "seconds": seconds}
            yield key, lambda cell=cell: in_child(lambda: healthy(cell, seconds))  # type: ignore[misc]


def report(lines: Sequence[Line]) -> tuple[str, bool]:
    """Tables in Markdown, and whether the bars are met."""
    faulty, well = (
        [line for line in lines if line["case"] != "healthy"],
        [line for line in lines if line["case"] == "healthy"],
    )
    rows = []
    for name in FAULTS:
        mine = [line for line in faulty if line["case"] == name]
        if mine:
            after = [line["after"] for line in mine if line["caught"]]
            rows.append([
                name,
                f"{sum(line['caught'] for line in mine)} of {len(mine)}",
                f"{median(after):g}" if after else "",
                ", ".join(sorted({line["rule"] or line["end"].split()[-1] for line in mine})),
                f"{sum(not line['ended'].startswith('no') for line in mine)} of {len(mine)}",
            ])  # fmt: skip
    caught = sum(line["caught"] for line in faulty)
    ended = sum(not line["ended"].startswith("no") for line in faulty)
    disturbed = [line for line in well if line["incidents"] or line["rolled_back"]]
    steps = sum(line["env_steps"] for line in well)
    text = table(["fault", "caught", "train steps later", "by", "ended by the advice"], rows)
    text += (
        f"\n\n{caught} of {len(faulty)} faults caught, {ended} of {len(faulty)} ended by following the advice;"
        f" {len(disturbed)} of {len(well)} healthy runs disturbed, in {steps:,} steps."
    )
    for line in disturbed:
        text += f"\n\n{line['cell']}: {'; '.join(line['incidents'])}"
    good = bool(faulty) and caught >= CAUGHT * len(faulty) and ended >= ENDED * len(faulty) and not disturbed
    return text, good


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.guardrails", description="Faults caught, calm kept.")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of CPU, for each healthy run")
    parser.add_argument("--only", default="", help="cases whose name has this text")
    parser.add_argument("--store", type=Path, default=STORE)
    parser.add_argument("--report", action="store_true", help="run nothing; write the table into the page")
    args = parser.parse_args(argv)
    set_threads(1)
    versions = {OURS: ours().versions}
    lines = []
    for key, run in cases(args.seeds, args.seconds):
        if args.only not in " ".join(map(str, key.values())):
            continue
        stored = [line for line in read_store(args.store) if {**line, **key} == line]
        if not stored and not args.report:
            with suppress(KeyboardInterrupt):
                stored = [{**key, **run(), **provenance(versions)}]
                append(args.store, stored[0])
                words = {
                    name: value
                    for name, value in stored[0].items()
                    if name in ("after", "rule", "end", "ended", "incidents")
                }
                print(" ".join(map(str, key.values())), words, file=sys.stderr, flush=True)
        lines += stored[-1:]
    text, good = report(lines)
    print(text)
    if args.report:
        replace_between(PAGE, "guardrails", text)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
