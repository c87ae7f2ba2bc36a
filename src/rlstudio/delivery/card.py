"""The files of a bundle that are for people: README.md, a model card, and example.py, a short program that acts."""

from __future__ import annotations

from rlstudio.core.contracts import State
from rlstudio.core.contracts.planning import AGE
from rlstudio.core.spaces import describe, from_json
from rlstudio.delivery.spec import Spec

EXAMPLE = '''\
"""Acts with this policy by NumPy and onnxruntime alone.

pip install "numpy>=2.0,<3" "onnxruntime>=1.20"
"""

import json
from pathlib import Path

import numpy as np
import onnxruntime

here = Path(__file__).parent
inputs = json.loads((here / "spec.json").read_text())["derived"]["inputs"]
session = onnxruntime.InferenceSession((here / "policy.onnx").read_bytes(), providers=["CPUExecutionProvider"])
names = [output.name for output in session.get_outputs()]


def zeros(rows, carried):
    """Empty observations, or what is remembered at the start of an episode."""
    wanted = [port for port in inputs if port["name"].startswith("carry_") == carried]
    return {port["name"]: np.zeros((rows, *port["shape"]), port["dtype"]) for port in wanted}


def act(observations, carry):
    """Actions in the environment's own numbering, and what to give back with the next observations."""
    results = dict(zip(names, session.run(names, {**observations, **carry})))
    return results["actions"], {name: results[name + "_after"] for name in carry}


if __name__ == "__main__":
    carry = zeros(2, carried=True)
    for _ in range(3):  # two environments, three steps
        actions, carry = act(zeros(2, carried=False), carry)
        print(actions.tolist())
'''

EXAMPLE_WITHOUT_ONNX = '''\
"""Acts with this policy, which RLStudio builds from its weights."""

from pathlib import Path

import numpy as np

from rlstudio import open_bundle

bundle = open_bundle(Path(__file__).parent)
episode = bundle.policy().episode()
ports = bundle.spec.observation_ports
rows = {port.part: np.zeros((2, *port.shape), port.dtype) for port in ports}  # two environments
observations = rows[""] if "" in rows else rows
for _ in range(3):
    print(episode.act(observations).tolist())
'''


def example(spec: Spec) -> bytes:
    return (EXAMPLE if _needs_no_rlstudio(spec) else EXAMPLE_WITHOUT_ONNX).encode()


def _needs_no_rlstudio(spec: Spec) -> bool:
    """A plan needs noise too, which RLStudio draws by the age of an episode."""
    return "onnx" in spec.formats and spec.plan is None


def readme(spec: Spec) -> bytes:
    """The model card."""
    observation, action = (describe(from_json(space)) for space in (spec.observation, spec.action))
    origin = spec.origin
    facts = {
        "policy": f"{spec.algo}, {_acts_by(spec)}",
        "environment": spec.env_id or "not named",
        "observations": observation,
        "actions": action,
        "score": _score(spec.evaluation),
        "run": None if origin.run_id is None else f"`{origin.run_id}` at {origin.checkpoint:,} environment steps",
        "imported from": None if origin.kind == "run" else "Stable-Baselines3",
        "state hash": origin.state_hash,
        "config hash": origin.config_hash,
        "normalizer": "inside the policy" if spec.derived["normalizer"] else None,
        "frame stack": spec.frame_stack and f"{spec.frame_stack['size']} frames are one observation",
        "action mask": spec.derived["action_mask"] and "entry `action_mask` of the observation, 0 forbids a choice",
        "memory": ", ".join(spec.derived["carry"]) or None,
        "made by": f"RLStudio {spec.rlstudio}",
    }
    table = "\n".join(f"| {name} | {value} |" for name, value in facts.items() if value)
    return f"""\
# {spec.name}

A trained policy, exported by RLStudio. {_how(spec)}

| | |
|---|---|
{table}

{_graphs(spec)}

## Use

```
python example.py               # {_needs(spec)}
rlctl eval {{this folder}}         # what it earns
rlctl serve-policy {{this folder}} # over HTTP
```

`spec.json` names every input and output with shape and dtype. The batch comes first. Observations are raw (the policy
normalizes by itself), floats as float32, bytes as uint8, choices as int64 counted from 0. Actions are the environment's
own: in its numbering and inside its bounds. What is remembered (`carry_*`) starts with zeros in each episode and comes
back as `carry_*_after`.{_noise(spec)}

`MANIFEST.json` has the sha256 of every file: `rlctl` refuses a bundle in which a single bit has changed. It is not a
signature: a program that changes a file can change the manifest too.
""".encode()


def _acts_by(spec: Spec) -> str:
    if spec.model is not None:
        return f"Model `{spec.model.variant}`"
    return "a planner that searches ahead in a model of the world at every step"


def _how(spec: Spec) -> str:
    if spec.plan is None:
        return "It acts greedily: the same observation gives the same action."
    return "It plans: the same observation, memory and noise give the same action."


def _noise(spec: Spec) -> str:
    """What the graph of a plan wants besides."""
    if spec.plan is None:
        return ""
    noise = spec.derived["noise"]
    return f""" `noise` are {noise["kind"]} random numbers that a graph tries sequences
with, new ones in each step; RLStudio itself takes them by the age of the episode (`{AGE}`). A graph plans for one
observation at a time."""


def _graphs(spec: Spec) -> str:
    if not spec.formats:
        return "It has no graph (none was asked for): RLStudio builds the policy from its weights."
    return f"""\
Before it was written, every graph in it ({", ".join(sorted(spec.formats))}) was compared with the trained agent on
{spec.parity["rows"]:,} recorded observations and took the same actions."""


def _needs(spec: Spec) -> str:
    """What `example.py` imports."""
    if _needs_no_rlstudio(spec):
        return "NumPy and onnxruntime, nothing else"
    return "RLStudio: there is no policy.onnx" if spec.plan is None else "RLStudio: it plans"


def _score(evaluation: State | None) -> str | None:
    if evaluation is None:
        return None
    interval = evaluation.get("interval")
    bounds = f", 95 % interval {interval[0]:.4g} to {interval[1]:.4g}" if interval else ""
    return f"mean return {evaluation['mean']:.4g}{bounds} ({evaluation['when']})"
