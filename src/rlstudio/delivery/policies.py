"""A trained policy and the experiment it was trained by, from a run or from a bundle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rlstudio.agents.agent import Agent
from rlstudio.core.errors import Incompatible
from rlstudio.core.model.protocol import Weights
from rlstudio.delivery.bundle import Bundle
from rlstudio.experiment.config.experiment import ExperimentConfig
from rlstudio.experiment.folder.run_folder import RunFolder
from rlstudio.experiment.run.load import load_run
from rlstudio.experiment.training.machine import set_threads


class TrainedPolicy(NamedTuple):
    id: str  # of its run; the name of a bundle that comes from no run
    agent: Agent
    cfg: ExperimentConfig
    env_steps: int
    reward_scale: float | None  # None: not known
    learned: Mapping[str, Weights]  # of all its Models; of a bundle, which has only what acts, none


def policy_of_run(folder: RunFolder, checkpoint: str = "last") -> TrainedPolicy:
    loaded = load_run(folder, checkpoint)
    return TrainedPolicy(folder.id, loaded.agent, loaded.cfg, loaded.env_steps, loaded.reward_scale, loaded.learned)


def refuse_team(bundle: Bundle, cfg: ExperimentConfig, instead: str) -> None:
    """One policy in all seats would be another game than the one that it learned."""
    if (team := bundle.spec.origin.team) is not None:
        raise Incompatible(
            f"{bundle.spec.name}: the policy of the team {team} cannot play {cfg.env.id} without the others"
            f" ({', '.join(name for name in cfg.teams if name != team)}); {instead}"
        )


def policy_of_bundle(bundle: Bundle, imports: Sequence[str] = (), *, networks: bool = False) -> TrainedPolicy:
    """`networks`: build the agent with its networks, which a planner needs; the graph of a bundle can only act."""
    cfg, origin = bundle.experiment(tuple(imports)), bundle.spec.origin
    refuse_team(bundle, cfg, f"evaluate the run {origin.run_id}")
    set_threads(cfg.runtime.threads)
    agent = bundle.agent() if networks else bundle.policy()
    return TrainedPolicy(
        origin.run_id or bundle.spec.name, agent, cfg, origin.checkpoint or 0, bundle.spec.reward_scale, {}
    )
