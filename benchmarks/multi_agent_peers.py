"""IPPO on simple_spread beside another library, in one run: `python -m benchmarks.multi_agent_peers`.

One policy for three agents, the same settings on every side, one learner with one thread: steps of the world per second
with learning. RLStudio runs it twice: as a user launches it, in its own world, and in MPE2's environments one after the
other. RLlib has MPE2's environments in its own wrapper, in the process that learns. Every repetition is a fresh
process, and the sides take turns. The result is `benchmarks/results/multi_agent_peers.json`; the table goes to
`docs/howto/pettingzoo.md`.
"""

from __future__ import annotations

import argparse
import sys
from statistics import median
from typing import Any, NamedTuple

from benchmarks.jobs import JobFailed, run_job
from benchmarks.page import replace_between, table
from benchmarks.records import provenance, read_result, write_result
from benchmarks.settings import OURS, PPO
from benchmarks.venvs import ROOT, CannotInstall, Venv, ours, prepare

NAME = "multi_agent_peers"
PAGE = ROOT / "docs" / "howto" / "pettingzoo.md"
AGENTS = 3
WANTED = 2.0
SETTINGS = {
    **PPO,
    "env_id": "mpe2/simple_spread_v3",
    "rollout_steps": 100,
    "batch_size": 240,
    "entropy_coef": 0.01,
    "rollout": {"workers": 0},
    "what": "rate",
    "threads": 1,
    "warmup_steps": 2 * 8 * 100,
}


class Side(NamedTuple):
    key: str
    title: str
    runner: str
    environments: str
    own: dict[str, Any] = {}
    steps: int = 1
    """What it counts where the world takes one step."""


SIDES = (
    Side(OURS, "RLStudio", "rlstudio_runner", "own NumPy world", {"vectorization": "auto"}, AGENTS),
    Side(OURS, "RLStudio", "rlstudio_runner", "MPE2, one by one", {"vectorization": "sync"}, AGENTS),
    Side("rllib_agents", "RLlib", "rllib_agents_runner", "MPE2, one by one"),
)


def job(side: Side, seed: int, seconds: float) -> dict[str, Any]:
    spec = {**SETTINGS, **side.own, "warmup_steps": SETTINGS["warmup_steps"] * side.steps}
    if side.key == OURS:
        del spec["rollout"]
    return {**spec, "seed": seed, "seconds": seconds}


def prepared() -> tuple[dict[str, Venv], dict[str, str]]:
    """The environment of every side, and why others have none."""
    found, missing = {OURS: ours("pettingzoo", "mpe2")}, {}
    for key in dict.fromkeys(side.key for side in SIDES if side.key not in found):
        try:
            found[key] = prepare(key)
        except CannotInstall as error:
            missing[key] = f"cannot be installed: {error}"
    return found, missing


def measure(seconds: float, repetitions: int) -> dict[str, Any]:
    venvs, missing = prepared()
    rates: dict[str, list[float]] = {}
    for seed in range(1, repetitions + 1):
        for number, side in enumerate(SIDES):
            if side.key in missing:
                continue
            try:
                found = run_job(venvs[side.key].python, side.runner, job(side, seed, seconds))
            except JobFailed as error:
                missing[side.key] = f"does not run: {error}"
                continue
            rates.setdefault(str(number), []).append(found["steps_per_second"] / side.steps)
            print(f"{side.title:10} {side.environments:22} {rates[str(number)][-1]:,.0f}", file=sys.stderr, flush=True)
    versions = {key: venv.versions for key, venv in venvs.items()}
    return {"rates": rates, "missing": missing, "seconds": seconds, **provenance(versions)}


def page(result: dict[str, Any]) -> str:
    rates = {int(number): median(values) for number, values in result["rates"].items()}
    rows = []
    for number, rate in rates.items():
        side, versions = SIDES[number], result["versions"][SIDES[number].key]
        worlds = ", ".join(f"{name} {versions[name]}" for name in ("pettingzoo", "mpe2") if name in versions)
        values = result["rates"][str(number)]
        spread = f"{min(values):,.0f} to {max(values):,.0f}"
        rows.append([side.title, side.environments, worlds, f"{rate:,.0f}", spread, f"{rates[0] / rate:.1f}"])
    head = [
        "library",
        "environments",
        "PettingZoo",
        "steps/s of the world, median",
        "lowest to highest",
        "first row, times as fast",
    ]
    return "\n\n".join([table(head, rows), *(f"{key} {why}." for key, why in result["missing"].items())])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.multi_agent_peers", description="IPPO beside peers.")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each repetition")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--prepare", action="store_true", help="only install the peers")
    parser.add_argument("--render", action="store_true", help="only write the table again, from the stored result")
    args = parser.parse_args()
    if args.prepare:
        return print(prepared())
    if not args.render:
        write_result(NAME, measure(args.seconds, args.repetitions))
    stored = read_result(NAME)
    if stored is None:
        raise SystemExit("nothing is measured yet; leave --render out")
    replace_between(PAGE, NAME, page(stored))
    print(page(stored))


if __name__ == "__main__":
    main()
