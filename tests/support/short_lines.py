"""Commands of the pages on runs and numbers that take no time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import yaml

from rlstudio.experiment.config.presets import locate
from support.experiments import TRAIN, tiny_data


def small(algo: str) -> list[str]:
    """Settings that keep a run of this algorithm short, whatever else it is told."""
    train = {"epochs": 2, "steps_per_epoch": 64, **TRAIN[algo], **({"rollout_steps": 16} if algo == "ppo" else {})}
    evaluation = {"every_epochs": 1, "episodes": 2, "final_episodes": 2}
    sections = {"env": {"num_envs": 4}, "train": train, "buffer": tiny_data(algo)["buffer"], "eval": evaluation}
    return [override for section, values in sections.items() for override in _dotted(section, values)]


def _dotted(path: str, value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inside in value.items():
            yield from _dotted(f"{path}.{key}", inside)
    else:
        yield f"{path}={yaml.safe_dump(value, default_flow_style=True).splitlines()[0]}"


def shortened(words: list[str]) -> list[str]:
    """The same command, on runs and numbers that take no time, and without the queue, which has tests of its own."""
    words = [re.sub(r"^(RUN|CHILD)$", "last", word) for word in words]
    words = [re.sub(r"^(train\.epochs|planner\.\w+)=\d+$", r"\1=4", word) for word in words]
    for option in ("--episodes", "--seeds"):
        if option in words:
            words[words.index(option) + 1] = "2"
    if "--at" in words and words[0] == "rewind":
        words[words.index("--at") + 1] = "64"
    match words[0]:
        case "eval" if "--episodes" not in words:
            words += ["--episodes", "2"]
        case "sweep":
            words = [word for word in words if word != "--detach"] + ["--dry-run"] * (words[1] == "-f")
        case "launch":
            file = words[words.index("-f") + 1] if "-f" in words else None
            known = yaml.safe_load(locate(file).read_text())["policy"]["algo"] if file else None
            words += small(known or words[words.index("--algo") + 1])
            if file and "simple_spread" in file:  # its three agents count as environments
                words.append("train.steps_per_epoch=192")
    if "--detach" in words:
        words[words.index("--detach")] = "--dry-run" if words[0] == "launch" else "--quiet"
    return words
