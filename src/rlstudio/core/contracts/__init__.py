"""The contracts between the rooms, as Protocols.

Parts that a catalog names have contract suites (`rlstudio.testing`, over all of them in `tests/contracts`); the others
have tests beside what implements them.

Array kinds: environments and the acting path on a CPU speak NumPy, learning speaks torch. A `State` is what a
checkpoint can hold: nested dicts and lists of tensors, NumPy arrays, `Segment`s and plain JSON values.
"""

from __future__ import annotations

from rlstudio.core.contracts.acting import Acted, Agent, Explore, NoiseBlock, Place, Player
from rlstudio.core.contracts.basics import Array, Carried, Metrics, Segment, State, Stateful
from rlstudio.core.contracts.data import (
    Contributor,
    DataSource,
    EpisodeDraws,
    FragmentRound,
    FragmentTag,
    Group,
    PriorityPlan,
    ReplayBuffer,
    ReplayPlan,
    Runtime,
    Tally,
    WarmsUp,
)
from rlstudio.core.contracts.environments import EnvFacts, NamedAgents, SeatsLearner, Step, Transition, VecEnv, World
from rlstudio.core.contracts.learning import (
    Algorithm,
    BuildsAgent,
    Lane,
    LimitsGradients,
    Trainer,
    TrainsTeams,
    WeighsItself,
)
from rlstudio.core.contracts.lease import Lease
from rlstudio.core.contracts.planning import (
    Dynamics,
    Outcome,
    Planned,
    Planner,
    PlanNoise,
    Rolling,
    Score,
    SequenceOutcome,
)
from rlstudio.core.model.protocol import ForPlanning, Model

__all__ = [
    "Acted",
    "Agent",
    "Algorithm",
    "Array",
    "BuildsAgent",
    "Carried",
    "Contributor",
    "DataSource",
    "Dynamics",
    "EnvFacts",
    "EpisodeDraws",
    "Explore",
    "ForPlanning",
    "FragmentRound",
    "FragmentTag",
    "Group",
    "Lane",
    "Lease",
    "LimitsGradients",
    "Metrics",
    "Model",
    "NamedAgents",
    "NoiseBlock",
    "Outcome",
    "Place",
    "PlanNoise",
    "Planned",
    "Planner",
    "Player",
    "PriorityPlan",
    "ReplayBuffer",
    "ReplayPlan",
    "Rolling",
    "Runtime",
    "Score",
    "SeatsLearner",
    "Segment",
    "SequenceOutcome",
    "State",
    "Stateful",
    "Step",
    "Tally",
    "Trainer",
    "TrainsTeams",
    "Transition",
    "VecEnv",
    "WarmsUp",
    "WeighsItself",
    "World",
]
