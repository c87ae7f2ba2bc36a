"""Documents of runs that never were: as many as a page may have to show, the same each time."""

from __future__ import annotations

import math
import random
from datetime import UTC, datetime, timedelta
from typing import Any

Document = dict[str, Any]

BEGIN = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
ALGOS = ("ppo", "dqn", "sac", "td3", "a2c")
ENVS = ("CartPole-v1", "Acrobot-v1", "LunarLander-v3", "HalfCheetah-v5", "Hopper-v5")
STATES = ("COMPLETED",) * 14 + ("FAILED", "INTERRUPTED", "CANCELLED", "QUEUED")
TAGS = ("paper", "baseline", "ablation", "to-check")
SEEDS = 5
RUNNING = 3


def made_up_run(number: int, of: int) -> Document:
    """Run `number` of `of`; the last ones run still."""
    rng = random.Random(number)
    group = number // SEEDS
    algo, env = ALGOS[group % len(ALGOS)], ENVS[(group // len(ALGOS)) % len(ENVS)]
    running = number >= of - RUNNING
    state = "RUNNING" if running else STATES[rng.randrange(len(STATES))]
    total = 60
    epoch = {"COMPLETED": total, "QUEUED": 0}.get(state, rng.randrange(5, total))
    best = 120 + 60 * rng.random() + 4 * (group % 40)
    shown = best * (1 - math.exp(-epoch / 18))
    born = BEGIN + timedelta(minutes=11 * number)
    handle = f"{number:04x}"
    return {
        "id": f"{born:%Y%m%d-%H%M%S}000000-{algo}-{env.lower()}-{handle}",
        "handle": handle,
        "name": f"{algo}-{env.split('-')[0].lower()}-lr{10 ** -(2 + group % 3):g}",
        "state": state,
        "reason": {"FAILED": "diverged", "INTERRUPTED": "signal"}.get(state, ""),
        "message": "policy_loss is not finite for 3 steps in a row" if state == "FAILED" else "",
        "algo": algo,
        "env_id": env,
        "seed": number % SEEDS,
        "config_hash": f"{group:012x}" + "0" * 52,
        "state_hash": None,
        "epoch": epoch,
        "total_epochs": total,
        "env_steps": epoch * 2048,
        "gradient_steps": epoch * 160,
        "train_return": round(shown * 0.93, 3) if epoch else None,
        "eval_return": round(shown, 2) if epoch else None,
        "eval_interval": [shown - 14, shown + 12] if epoch else None,
        "exact": True,
        "exact_reason": "",
        "host": "here",
        "owner": "ada",
        "attempt": 1,
        "priority": 0,
        "paused": False,
        "recorded": True,
        "parent_id": None,
        "parent_step": None,
        "sweep": "",
        "trial": None,
        "tags": [TAGS[group % len(TAGS)]] if group % 3 == 0 else [],
        "note": "",
        "created_at": born.isoformat(),
        "updated_at": (born + timedelta(minutes=epoch)).isoformat(),
        "etag": f'"{number}-0"',
    }


def made_up_runs(count: int) -> list[Document]:
    """Newest first, as the server lists them."""
    return [made_up_run(number, count) for number in reversed(range(count))]


def small_curve(run: Document, points: int) -> list[float]:
    rng = random.Random(run["id"])
    top = run["eval_return"] or 0
    return [top * (1 - math.exp(-4 * i / points)) + rng.gauss(0, top * 0.04) for i in range(points)]


METRICS = (
    *("rollout/return_mean", "rollout/length_mean", "eval/return_mean", "eval/return_ci_low", "eval/return_ci_high"),
    *("train/policy_loss", "train/value_loss", "train/entropy", "train/kl", "train/lr", "guard/skipped_share"),
    *("time/steps_per_second", "system/cpu_share", "system/rss_mb"),
)


def made_up_series(run: Document, epochs: int) -> dict[str, Document]:
    """The curves of a run up to an epoch."""
    top, made = run["eval_return"] or 180.0, {}
    for index, name in enumerate(METRICS):
        rng = random.Random(f"{run['id']} {name}")
        every = 4 if name.startswith("eval/") else 1
        steps = [2048 * epoch for epoch in range(1, epochs + 1) if epoch % every == 0]
        shape = [_value(name, step / (2048 * 60), top, rng) for step in steps]
        made[name] = {"x": steps, "y": shape, "clock": [1.77e9 + step / 900 + index * 0.001 for step in steps]}
    return made


def _value(name: str, share: float, top: float, rng: random.Random) -> float:
    rise = top * (1 - math.exp(-4 * share))
    noise = rng.gauss(0, 1)
    return {
        "rollout/return_mean": rise * 0.93 + noise * top * 0.05,
        "rollout/length_mean": rise + noise * 9,
        "eval/return_mean": rise,
        "eval/return_ci_low": rise - top * 0.09 * (1.2 - share),
        "eval/return_ci_high": rise + top * 0.08 * (1.2 - share),
        "train/policy_loss": -0.02 + 0.006 * noise,
        "train/value_loss": 40 * math.exp(-3 * share) + abs(noise) * 3,
        "train/entropy": 0.69 * math.exp(-1.2 * share) + 0.01 * noise,
        "train/kl": abs(0.01 + 0.004 * noise),
        "train/lr": 1e-3 * (1 - share),
        "guard/skipped_share": 0.0,
        "time/steps_per_second": 11_000 + 400 * noise,
        "system/cpu_share": min(1.0, 0.82 + 0.05 * noise),
        "system/rss_mb": 340 + 40 * share,
    }[name]


def crowded_curves(curves: int, points: int) -> list[Document]:
    """Groups of many long curves: random walks, whose every zoom shows something else."""
    made = []
    for curve in range(curves):
        rng = random.Random(curve)
        value, values = 0.0, []
        for _ in range(points):
            value += rng.gauss(0, 1)
            values.append(round(value, 3))
        line = {"x": list(range(points)), "iqm": values, "low": None, "high": None}
        made.append({"name": f"walk-{curve:02d}", "n": 1, **line, "runs": []})
    return made
