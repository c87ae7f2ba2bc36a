"""What one training step of DQN, SAC and TD3 is made of: `python -m benchmarks.update_cost [--store]`.

Each algorithm trains by the settings of its row in `benchmarks.settings`, in a session as `rlctl launch` makes it. A
training step is everything from one update to the next: acting, the environment, replay, the update, guardrails. Its
time is measured undisturbed. Then every operation of the update is timed on its own, as torch dispatches it, forward
and backward: matrix products, passes over minibatches and weights, and what is left over, which is Python, dispatch and
autograd. Medians throughout. TD3 updates its policy every second time: two updates count as one line, halved.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

from benchmarks.page import replace_between, table
from benchmarks.records import provenance, read_result, write_result
from benchmarks.settings import DQN, OURS, SAC, TD3, Settings
from benchmarks.venvs import ROOT, ours

PAGE = ROOT / "docs" / "benchmarks.md"
NAME = "update_cost"
ROWS: dict[str, Settings] = {"dqn": DQN, "sac": SAC, "td3": TD3}
THREADS = (1, 2)
STEPS = 400
"""Training steps that are timed as they are; half as many updates are taken apart."""

PRODUCTS = ("mm", "addmm", "bmm", "baddbmm", "mv", "dot")
OPTIMIZER = ("_fused_adam_", "linalg_vector_norm", "lerp_", "zero_")
LARGE = 8192
"""Numbers from which an operation is a pass over memory rather than the cost of a call."""

PARTS = ("products", "passes", "optimizer", "calls", "outside")
TITLES = {
    "products": "matrix products",
    "passes": "activations and other passes over layers",
    "optimizer": "gradient norm, Adam, targets",
    "calls": "small operations, autograd, Python of the update",
    "outside": "acting, environment, replay, guardrails, loop",
}


def measure(algo: str, threads: int) -> dict[str, float]:
    """Microseconds of a training step by part, in this process."""
    import torch

    sys.path.insert(0, str(ROOT / "benchmarks" / "peers"))
    import rlstudio_runner

    from rlstudio import orchestrator

    facts = {"what": "rate", "threads": threads, "vectorization": "native", "seed": 0}
    cfg = rlstudio_runner.experiment({**ROWS[algo], **facts})
    updates, steps = _Timed(), []
    with tempfile.TemporaryDirectory() as folder, orchestrator.session(cfg, runs_dir=folder) as session:
        ticks, trainer = iter(session), session.trainer
        while next(ticks).env_steps < ROWS[algo]["warmup_steps"]:
            pass
        plain = trainer.update
        trainer.update = updates.wrap(plain)  # type: ignore[method-assign]
        for _ in range(STEPS):
            began = time.perf_counter()
            next(ticks)
            steps.append(time.perf_counter() - began)
        trainer.update = plain  # type: ignore[method-assign]
        batch = trainer.source.next()
        parts = _operations(torch, lambda: trainer.update(batch), STEPS // 2)
        ticks.close()  # type: ignore[attr-defined]
    step, update = _pairwise(steps), _pairwise(updates.seconds)
    calls = update - sum(parts.values())
    found = {**parts, "calls": calls, "outside": step - update}
    return {part: round(1e6 * found[part], 1) for part in PARTS}


class _Timed:
    """How long each call of a function took."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def wrap(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any) -> Any:
            began = time.perf_counter()
            result = function(*arguments)
            self.seconds.append(time.perf_counter() - began)
            return result

        return timed


def _pairwise(seconds: Sequence[float]) -> float:
    """The median of two in a row, halved: every second update of TD3 includes the policy."""
    return median(first + second for first, second in zip(seconds[::2], seconds[1::2], strict=False)) / 2


def _operations(torch: Any, update: Callable[[], object], updates: int) -> dict[str, float]:
    """Seconds of an update that its operations take, by part; those of small tensors are left out."""
    from torch.utils._python_dispatch import TorchDispatchMode

    spent: dict[tuple[int, int, str], list[float]] = defaultdict(list)
    place = [0, 0]  # which of two updates, which operation of it

    class Stopwatch(TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            began = time.perf_counter()
            result = function(*args, **(kwargs or {}))
            seconds = time.perf_counter() - began
            name = function.overloadpacket.__name__
            sizes = [tensor.numel() for tensor in _tensors(torch, (*args, result))]
            if part := _part(name, max(sizes, default=0)):
                place[1] += 1
                spent[place[0], place[1], part].append(seconds)
            return result

    with Stopwatch():
        for number in range(updates):
            place[:] = [number % 2, 0]
            update()
    # Of an operation that is not in every update, its share of them.
    totals = dict.fromkeys(("products", "passes", "optimizer"), 0.0)
    for (_, _, part), seconds in spent.items():
        totals[part] += median(seconds) * len(seconds) / updates
    return totals


def _tensors(torch: Any, values: Sequence[Any]) -> list[Any]:
    flat = [item for value in values for item in (value if isinstance(value, list | tuple) else [value])]
    return [value for value in flat if isinstance(value, torch.Tensor)]


def _part(name: str, size: int) -> str | None:
    if name in PRODUCTS:
        return "products"
    if name in OPTIMIZER and size >= LARGE:
        return "optimizer"
    views = ("view", "t", "transpose", "expand", "detach", "alias", "slice", "select", "as_strided", "_unsafe_view")
    return "passes" if size >= LARGE and name not in views else None


def page(result: dict[str, Any] | None) -> str:
    """The table of `docs/benchmarks.md`: microseconds and shares."""
    if result is None:
        return "Nothing has been measured yet."
    columns = [(algo, str(count)) for algo in ROWS for count in THREADS]
    found = result["us"]
    sums = {key: sum(found[key[0]][key[1]].values()) for key in columns}
    header = ["microseconds (share)", *(f"{algo.upper()}, {_threads(count)}" for algo, count in columns)]
    rows = [
        [TITLES[part], *(f"{found[a][c][part]:,.0f} ({found[a][c][part] / sums[a, c]:.0%})" for a, c in columns)]
        for part in PARTS
    ]
    rows.append(["one training step", *(f"{sums[key]:,.0f}" for key in columns)])
    rest = [1 - found[a][c]["products"] / (sums[a, c] - found[a][c]["outside"]) for a, c in columns]
    rows.append(["share of the update outside the products", *(f"{share:.0%}" for share in rest)])
    machine = result["machine"]
    note = f"`{result['command']}`, {result['date']}; {machine['cores']} cores ({machine['processor']})"
    return f"{table(header, rows)}\n\n<sub>{note}.</sub>"


def _threads(count: str) -> str:
    return f"{count} thread{'s' if count != '1' else ''}"


def in_fresh_processes(algos: Sequence[str]) -> dict[str, dict[str, dict[str, float]]]:
    found: dict[str, dict[str, dict[str, float]]] = {}
    for algo in algos:
        for threads in THREADS:
            command = [sys.executable, "-m", "benchmarks.update_cost", "--one", algo, str(threads)]
            done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
            found.setdefault(algo, {})[str(threads)] = json.loads(done.stdout.splitlines()[-1])
            print(algo, threads, found[algo][str(threads)], file=sys.stderr, flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.update_cost", description="Parts of a training step.")
    parser.add_argument("--algos", nargs="+", choices=ROWS, default=list(ROWS), help="which (default: all)")
    parser.add_argument("--store", action="store_true", help="keep the result, and write it into docs/benchmarks.md")
    parser.add_argument("--one", nargs=2, metavar=("ALGO", "THREADS"), help="measure in this process, print JSON")
    args = parser.parse_args()
    if args.one:
        print(json.dumps(measure(args.one[0], int(args.one[1]))))
        return
    found = in_fresh_processes(args.algos)
    earlier = (read_result(NAME) or {}).get("us", {}) if args.store else {}
    result = {**provenance({OURS: ours().versions}), "us": {**earlier, **found}}
    if args.store:
        write_result(NAME, result)
        replace_between(PAGE, NAME, page(result))
    elif set(found) == set(ROWS):
        print(page(result))


if __name__ == "__main__":
    main()
