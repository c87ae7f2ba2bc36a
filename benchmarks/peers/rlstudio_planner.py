"""Plans of ours in the equations of an environment: noise, plan and carry, as an agent does them in each step."""

from __future__ import annotations

import numpy as np
import torch
from measure import answer, job, rate

from rlstudio.envs.worlds.catalog import make_world
from rlstudio.envs.worlds.equations import analytic_dynamics
from rlstudio.experiment.training.machine import set_threads
from rlstudio.planners.build import build_planner
from rlstudio.planners.config import PlannerConfig
from rlstudio.planners.score import ReturnScore


def main() -> None:
    told = job()
    set_threads(told["threads"])
    world, envs = make_world(told["env_id"], {}), told["envs"]
    planner = build_planner(PlannerConfig(**told["planner"]), world.spaces.action)
    score = ReturnScore(analytic_dynamics(told["env_id"]))
    generator = np.random.default_rng(0)
    states = world.initial(generator.random((envs, world.noise_size)), world.params, np)
    observations = torch.from_numpy(world.observe(states, world.params, np).astype(np.float32))
    carry = None

    def plan() -> None:
        nonlocal carry
        carry = planner.plan(observations, score, carry, planner.noise(generator, envs)).carry

    answer(**rate(plan, told["seconds"]))


if __name__ == "__main__":
    main()
