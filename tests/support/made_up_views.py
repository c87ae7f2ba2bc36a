"""Made-up documents for the views of groups, sweeps, models and the queue; settings and their checks are real."""

from __future__ import annotations

import random
from typing import Any

from rlstudio.core.errors import ConfigError
from rlstudio.core.parsing.yaml_file import read_text
from rlstudio.experiment.config.experiment import experiment_from
from rlstudio.experiment.config.presets import FOLDER
from rlstudio.experiment.config.schema import experiment_schema
from support.page_server import PageServer

Document = dict[str, Any]
METRIC = "eval/return_mean"
DRAWN = "rollout/return_mean"
STATES = ("COMPLETED", "PRUNED", "COMPLETED", "PRUNED", "RUNNING")


def fill(server: PageServer) -> None:
    """What the views ask for, beside the runs."""
    groups = [group(name, values) for name, values in (("slow", (90, 120, 110)), ("fast", (480, 500, 455)))]
    server.documents |= {
        "/compare": {"metric": METRIC, "direction": "maximize", "groups": groups, "notes": ["few runs"]},
        "/curves": curves,
        "/sweeps": {
            "items": [
                {
                    "name": "search",
                    "state": "RUNNING",
                    "trials": 12,
                    "live_trials": [4, 9],
                    "planned": 20,
                    "best_value": 480.0,
                }
            ]
        },
        "/sweeps/search": sweep(),
        "/sweeps/search/best": {"yaml": preset("ppo/quickstart")},
        "/models": {"versions": versions()},
        "/models/walker": {"name": "walker", "versions": versions(), "history": history(), "before": 1},
        "/queue": queue(server),
        "/metrics.csv": {},
        "/schema": experiment_schema(),
        "/catalog": catalog(),
        "/presets/ppo/quickstart": {"yaml": preset("ppo/quickstart")},
        "/presets/sweep/ppo_cartpole": {"yaml": preset("sweep/ppo_cartpole")},
    }
    for name in ("slow", "fast"):
        config = {"name": name, "train": {"lr": {"slow": 1e-5, "fast": 1e-3}[name], "gamma": 0.99}}
        for run in group(name, (0, 0, 0))["runs"]:
            server.documents[f"/runs/{run['id']}/config"] = {"yaml": "", "config": config}
            names = [{"name": METRIC, "kind": "eval", "last": 1.0, "count": 3}]
            server.documents[f"/runs/{run['id']}/metrics"] = {"names": names, "steps": 4096}
    server.actions |= {
        "/experiments": lambda body: checked(body) if body.get("validate_only") else launched(server, body),
        "/sweeps": lambda body: {"ok": True, "problems": []} if body.get("validate_only") else sweep(),
        "/queue/order": lambda body: reordered(server, body),
        "/sweeps/search/stop": lambda body: server.documents["/sweeps/search"] | {"state": "STOPPED"},
        "/models/walker/rollback": lambda body: rolled_back(server),
    }


def preset(name: str) -> str:
    return (FOLDER / f"{name}.yaml").read_text()


def checked(body: Document) -> Document:
    """As the server answers `validate_only`: what `rlctl launch` says, line by line."""
    try:
        experiment_from(read_text(body["yaml"], "experiment"))
    except ConfigError as error:
        return {"ok": False, "problems": [_problem(line) for line in str(error).splitlines()]}
    return {"ok": True, "problems": []}


def _problem(line: str) -> Document:
    place, _, rest = line.partition(": ")
    field, _, message = rest.partition(": ")
    return {"field": field, "message": message, "line": int(place.split(":")[1])}


def launched(server: PageServer, body: Document) -> Document:
    runs = list(server.runs.values())[: body.get("seeds", 1)]
    return {"runs": runs, "run": runs[0]}


def estimate(value: float, spread: float) -> Document:
    return {"value": value, "low": value - spread, "high": value + spread}


def group(name: str, values: tuple[float, ...]) -> Document:
    middle = sum(values) / len(values)
    ends = [
        {"id": f"20261118-1200{n}-{name}", "seed": n, "state": "COMPLETED", "step": 4096, "value": value}
        for n, value in enumerate(values)
    ]
    shared = {"name": name, "n": len(values), "envs": ["CartPole-v1"], "algos": ["ppo"], "runs": ends}
    better = None if name == "slow" else {"value": 1.0, "low": 0.8, "high": 1.0}
    return {**shared, "iqm": estimate(middle, 12), "mean": estimate(middle, 15), "improvement": better}


def curves(query: dict[str, list[str]]) -> Document:
    """As the server answers: without a metric it draws the training return where evaluations are too few."""
    metric = query.get("metric", [DRAWN])[0]
    notes = [] if metric == METRIC else ["slow: at most 2 evaluations of each run, so the training return is drawn"]
    return {"metric": metric, "groups": [curve(name) for name in query["runs"][0].split(",")], "notes": notes}


def curve(name: str) -> Document:
    draw = random.Random(name)
    xs = list(range(0, 20_000, 2000))
    ys = [min(500.0, 20 + n * draw.uniform(20, 60)) for n in range(len(xs))]
    runs = [{"id": f"{name}-0", "seed": 0, "x": xs, "y": ys}]
    return {
        "name": name,
        "n": 2,
        "x": xs,
        "iqm": ys,
        "low": [y - 15 for y in ys],
        "high": [y + 15 for y in ys],
        "runs": runs,
    }


def trial_name(number: int) -> str:
    return f"search-{number}"


def sweep() -> Document:
    draw = random.Random(0)
    trials = [_trial(number, draw) for number in range(12)]
    space = {
        "train.lr": {"low": 1e-5, "high": 1e-2, "log": True},
        "train.gamma": {"choices": [0.9, 0.98, 0.99]},
        "train.passes": {"low": 2, "high": 24, "log": False},
    }
    shared = {"metric": METRIC, "direction": "maximize", "seeds": [0, 1], "sampler": "random", "pruner": "asha"}
    importance = {"train.lr": 0.7, "train.passes": 0.31, "train.gamma": 0.12}
    plan = {"planned": 20, "epochs": 9, "rungs": [2, 4], "space": space, "importance": importance}
    return {
        "name": "search",
        "state": "RUNNING",
        "env_steps": 98_304,
        "paused": 2,
        "best": 2,
        "trials": trials,
        **shared,
        **plan,
    }


def _trial(number: int, draw: random.Random) -> Document:
    state = STATES[number % len(STATES)]
    epoch = {"COMPLETED": 9, "PRUNED": 2, "RUNNING": 4}[state]
    value = draw.uniform(50, 200) if state == "PRUNED" else draw.uniform(200, 480)
    params = {
        "train.lr": 10 ** draw.uniform(-5, -2),
        "train.gamma": draw.choice([0.9, 0.98, 0.99]),
        "train.passes": draw.randint(2, 24),
    }
    results = {str(epoch): {"0": value + 5, "1": value - 5}}
    runs = [f"20261118-1300{number:02d}-{seed}" for seed in (0, 1)]
    shared = {"number": number, "name": trial_name(number), "state": state, "params": params, "message": ""}
    if number == 9:  # has only begun
        return {**shared, "value": None, "bound": None, "epoch": 0, "results": {}, "runs": runs}
    return {**shared, "value": value, "bound": value - 5, "epoch": epoch, "results": results, "runs": runs}


def versions() -> list[Document]:
    stages = {1: "archived", 2: "production", 3: "staging"}
    return [
        {
            **{"name": f"walker:{number}", "model": "walker", "version": number, "digest": f"{number:064x}"},
            **{"run_id": f"20261118-1400{number}-ppo", "step": number * 4096, "stage": stages[number]},
            "created_at": f"2026-11-18T12:0{number}:00+00:00",
        }
        for number in (3, 2, 1)
    ]


def history() -> list[Document]:
    refused = verdict(False, "not better than production: mean difference -20, bounds [-30, -10] after 40 episodes")
    rows = [
        (1, "promote", "production", {}),
        (2, "promote", "production", verdict(True, "better")),
        (3, "refuse", "staging", refused),
    ]
    return [
        {
            **{"seq": version, "model": "walker", "version": version, "kind": kind, "stage": stage, "actor": "ada"},
            **{"reason": numbers.get("reason", ""), "verdict": numbers, "at": f"2026-11-18T12:1{version}:00+00:00"},
        }
        for version, kind, stage, numbers in rows
    ]


def verdict(promote: bool, reason: str) -> Document:
    side = {"mean": 480.0, "ci_low": 460.0, "ci_high": 495.0, "std": 22.0}
    looks = [{"n": n, "mean": -20.0, "lower": -40.0 + n / 4, "upper": -n / 4, "alpha": 0.01} for n in (20, 40)]
    settings = {"margin": 0.0, "alpha": 0.025, "budget": 160}
    gates = {"min_return": {"found": 460.0, "wanted": 470.0}}
    shared = {"promote": promote, "reason": reason, "seed": 7, "episodes": 40, "settings": settings}
    return {**shared, "candidate": side, "incumbent": {**side, "mean": 500.0}, "looks": looks, "gates": gates}


def rolled_back(server: PageServer) -> Document:
    changed = {1: "production", 2: "archived"}
    for version in server.documents["/models/walker"]["versions"]:
        version["stage"] = changed.get(version["version"], version["stage"])
    return dict(server.documents["/models/walker"]["versions"][-1])


def queue(server: PageServer) -> Document:
    runs = list(server.runs.values())
    waiting = [{**run, "state": "QUEUED", "name": f"waiting-{number}"} for number, run in enumerate(runs[1:5])]
    worker = {"id": "w-1", "host": "lab-01", "cpus": 16, "gpus": 1, "memory_mb": 65_536, "steps_per_second": 18_000.0}
    slots = {"cpus": 16, "gpus": 1, "memory_mb": 65_536}
    return {
        "running": runs[:1],
        "queued": waiting,
        "paused": [],
        "not_recorded": [],
        "workers": [worker],
        "slots": slots,
        "in_use": {"cpus": 2, "gpus": 1, "memory_mb": 8192},
    }


def reordered(server: PageServer, body: Document) -> Document:
    """These first; the others keep their order behind them."""
    queued = server.documents["/queue"]["queued"]
    queued.sort(key=lambda run: body["ids"].index(run["id"]) if run["id"] in body["ids"] else len(queued))
    return {}


def catalog() -> Document:
    presets = [{"name": "ppo/quickstart", "algo": "ppo", "env": "CartPole-v1", "summary": "PPO on CartPole-v1"}]
    sweeps = [{"name": "sweep/ppo_cartpole", "summary": "Which settings suit PPO?"}]
    return {
        "algos": [{"name": "ppo", "summary": ""}],
        "envs": [{"name": "CartPole-v1"}],
        "presets": presets,
        "sweeps": sweeps,
    }
