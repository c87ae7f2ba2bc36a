"""The agent and the exploration of an algorithm, without the rest of its trainer.

A worker has no objects of the learner. It builds the same algorithm from the same settings, over a runtime that takes
what the algorithm asks experience for, and stops there: no algorithm has to know that workers exist, and those of other
packages work alike. The weights come from the learner before the first step.
"""

from __future__ import annotations

from typing import NamedTuple, NoReturn

from rlstudio.core.catalog import ALGOS, LANES
from rlstudio.core.config import parse
from rlstudio.core.contracts import Agent, Explore, Lane, ReplayPlan, State
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Spaces
from rlstudio.data.env_facts import EnvDescription
from rlstudio.models.config import NetworkConfig
from rlstudio.ops.group import ALONE
from rlstudio.scale.workers.job import RolloutJob


class ActingParts(NamedTuple):
    agent: Agent
    explore: Explore | None


class _Asked(Exception):
    """The algorithm asked for experience: its agent is complete."""

    def __init__(self, parts: ActingParts) -> None:
        super().__init__()
        self.parts = parts


class _Blueprint(EnvDescription):
    """A Runtime that has no experience."""

    group = ALONE
    exact: str | None = None

    def __init__(self, spaces: Spaces, job: RolloutJob) -> None:
        super().__init__(spaces, job.env_config)
        self.num_envs = self.run_envs = job.env_config.num_envs

    def stream(self, agent: Agent, rng: Rng, steps: int, explore: Explore | None = None) -> NoReturn:
        raise _Asked(ActingParts(agent, explore))

    def replay(self, agent: Agent, rng: Rng, plan: ReplayPlan, explore: Explore | None = None) -> NoReturn:
        raise _Asked(ActingParts(agent, explore))

    def topology(self) -> State:
        return {}

    def close(self) -> None:
        """Nothing is open."""


def acting_parts(job: RolloutJob, spaces: Spaces) -> ActingParts:
    """What acts in these spaces, on the CPU, with weights as they are before learning."""
    lane: Lane = LANES.load(job.lane)()
    train = parse(ALGOS.load(job.algo).Config, job.train, "the settings of a worker")
    network = parse(NetworkConfig, job.network, "the network of a worker")
    try:
        lane.trainer(job.algo, train, _Blueprint(spaces, job), network, Rng(0))
    except _Asked as asked:
        return asked.parts
    raise AssertionError(f"{job.algo} asks for no experience, so no worker can collect any for it")
