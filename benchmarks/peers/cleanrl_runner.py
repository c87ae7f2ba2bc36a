"""CleanRL: its own scripts as they are, from the checkout that `--cleanrl` names.

A script is run as a program, with the row's settings as its command line. It writes `charts/SPS` after each update of
PPO and every 100 steps otherwise: that is the mark.
"""

from __future__ import annotations

import contextlib
import os
import runpy
import sys
import tempfile
from pathlib import Path
from typing import Any

import gymnasium
import torch
from measure import Done, Job, Window, answer, job
from torch.utils import tensorboard

TIMESTEPS = 10**8
FLAGS = {
    "seed": "seed",
    "env_id": "env-id",
    "num_envs": "num-envs",
    "gamma": "gamma",
    "gae_lambda": "gae-lambda",
    "passes": "update-epochs",
    "rollout_steps": "num-steps",
    "clip": "clip-coef",
    "entropy_coef": "ent-coef",
    "value_coef": "vf-coef",
    "buffer": "buffer-size",
    "learning_starts": "learning-starts",
    "tau": "tau",
    "policy_delay": "policy-frequency",
    "noise_std": "exploration-noise",
    "target_noise": "policy-noise",
    "target_noise_clip": "noise-clip",
    "target_every_steps": "target-network-frequency",
}
"""Our name of a setting -> theirs, where it means the same."""


def ppo(spec: Job) -> tuple[str, dict[str, Any]]:
    is_discrete = isinstance(gymnasium.make(spec["env_id"]).action_space, gymnasium.spaces.Discrete)
    minibatches = spec["rollout_steps"] * spec["num_envs"] // spec["batch_size"]
    own = {"num-minibatches": minibatches, "learning-rate": spec["lr"], "max-grad-norm": spec["max_grad_norm"]}
    return "ppo.py" if is_discrete else "ppo_continuous_action.py", {**own, "no-anneal-lr": None, "no-clip-vloss": None}


def dqn(spec: Job) -> tuple[str, dict[str, Any]]:
    epsilon = {"start-e": spec["epsilon"], "end-e": spec["epsilon"]}
    own = {"batch-size": spec["batch_size"], "learning-rate": spec["lr"], "train-frequency": spec["train_every"]}
    return "dqn.py", {**own, **epsilon}


def sac(spec: Job) -> tuple[str, dict[str, Any]]:
    own = {"batch-size": spec["batch_size"], "policy-lr": spec["lr"], "q-lr": spec["lr"]}
    return "sac_continuous_action.py", own


def td3(spec: Job) -> tuple[str, dict[str, Any]]:
    return "td3_continuous_action.py", {"batch-size": spec["batch_size"], "learning-rate": spec["lr"]}


SCRIPTS = {"ppo": ppo, "dqn": dqn, "sac": sac, "td3": td3}


def marking(window: Window) -> type[tensorboard.SummaryWriter]:
    """Their writer, which also marks the steps that it is called with."""

    class Marking(tensorboard.SummaryWriter):
        def add_scalar(self, tag: str, scalar_value: Any, global_step: int | None = None, *more: Any) -> None:
            super().add_scalar(tag, scalar_value, global_step, *more)  # type: ignore[no-untyped-call]
            if tag == "charts/SPS" and global_step is not None and window.mark(global_step):
                raise Done

    return Marking


def main() -> None:
    spec = job()
    torch.set_num_threads(spec["threads"])
    window = Window(spec["seconds"], spec["warmup_steps"])
    tensorboard.SummaryWriter = marking(window)
    script, own = SCRIPTS[spec["algo"]](spec)
    shared = {flag: spec[name] for name, flag in FLAGS.items() if name in spec}
    flags = {**shared, **own, "total-timesteps": TIMESTEPS, "no-cuda": None}
    sys.argv = [script, *(part for flag, value in flags.items() for part in _words(flag, value))]
    checkout = Path(spec["checkout"]).resolve()
    sys.path.insert(0, str(checkout))  # for cleanrl_utils
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # where they write runs/
        with contextlib.suppress(Done):
            runpy.run_path(str(checkout / "cleanrl" / script), run_name="__main__")
        os.chdir("/")
    answer(**window.result())


def _words(flag: str, value: Any) -> list[str]:
    return [f"--{flag}"] if value is None else [f"--{flag}", str(value)]


if __name__ == "__main__":
    main()
