"""TeamsTrainer: several trainers, each with its own team of agents, as the one trainer that a run has.

All teams act in the same steps. After each round, the rollout of the teams that learn from fresh ones, every team takes
train steps until it has used what its agents did. Teams that learn from fresh rollouts are first, so what each learns
from was done by the weights that it has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

import torch

from rlstudio.agents.teams import TeamsAgent
from rlstudio.core.batch import Batch
from rlstudio.core.contracts import Metrics, NamedAgents, State, Stateful, Tally, Trainer, WarmsUp, WeighsItself
from rlstudio.data.collect.stream import NotKept
from rlstudio.data.collect.tallies import draws_together
from rlstudio.data.teams.joint import Joint

SEPARATOR = "/"
"""Between the name of a team and that of a part or a metric of it."""


def of_team(team: str, name: str) -> str:
    """What a part, a metric or a state of a team is called in the run."""
    return f"{team}{SEPARATOR}{name}"


class TeamsTrainer:
    def __init__(self, joint: Joint, trainers: Mapping[str, Trainer]) -> None:
        self.joint = joint
        self.trainers = dict(trainers)
        self.source = TeamsSource(joint, self.trainers)
        env = joint.runtime.env
        names = env.agent_names if isinstance(env, NamedAgents) else ()
        agents = {name: trainer.agent for name, trainer in trainers.items()}
        self.agent = TeamsAgent(agents, joint.teams, names, env.spaces)
        self._round = joint.round_steps()

    @property
    def gradient_steps(self) -> int:
        return sum(trainer.gradient_steps for trainer in self.trainers.values())

    @property
    def skipped(self) -> float:
        return sum(trainer.skipped for trainer in self.trainers.values())

    @property
    def lr(self) -> float | None:
        """The largest; each team reports its own too."""
        return max((lr for trainer in self.trainers.values() if (lr := trainer.lr) is not None), default=None)

    def weights_are_finite(self) -> bool:
        return all(trainer.weights_are_finite() for trainer in self.trainers.values())

    def weight_rms(self) -> float:
        """That of the team with the largest weights."""
        return max(trainer.weight_rms() for trainer in self.trainers.values() if isinstance(trainer, WeighsItself))

    def train_step(self) -> Metrics:
        """One round; of teams that are still warming up there is nothing to report."""
        members = self.joint.members
        target = (min(member.taken for member in members.values()) // self._round + 1) * self._round
        metrics: Metrics = {}
        for name in self.joint.by_freshness:
            rows = self._catch_up(name, target)
            if rows:
                means = {key: torch.stack([row[key] for row in rows]).mean() for key in rows[0]}
                lr = self.trainers[name].lr
                means |= {} if lr is None else {"lr": torch.tensor(lr)}
                metrics |= {of_team(name, key): mean for key, mean in means.items()}
        return metrics

    def _catch_up(self, name: str, target: int) -> list[Metrics]:
        """Train steps of a team until it has taken its rows up to this vector step."""
        member, trainer = self.joint.members[name], self.trainers[name]
        rows = []
        while member.taken < target:
            source, left = trainer.source, (target - member.taken) * member.run_envs
            if not (_is_warming(trainer) and isinstance(source, WarmsUp) and source.warm_up(left)):
                rows.append(trainer.train_step())
        return rows

    @torch.no_grad()
    def eval_step(self) -> Metrics:
        return {
            of_team(name, key): value
            for name, trainer in self.trainers.items()
            for key, value in trainer.eval_step().items()
        }

    def progress(self, fraction: float) -> None:
        for trainer in self.trainers.values():
            trainer.progress(0.0 if _is_warming(trainer) else fraction)  # as the loop has it

    def stateful(self) -> dict[str, Stateful]:
        """The parts of each team under its name; the environments after those who act in them."""
        parts = {
            of_team(name, part): stateful
            for name, trainer in self.trainers.items()
            for part, stateful in trainer.stateful().items()
        }
        return {**parts, "environments": self.joint}


class TeamsSource(NotKept):
    """What a run asks of its source; Batches are drawn by the sources of the teams."""

    last: Batch | None = None

    def __init__(self, joint: Joint, trainers: Mapping[str, Trainer]) -> None:
        self.joint = joint
        self._trainers = trainers

    @property
    def env_steps(self) -> int:
        return self.joint.env_steps

    @property
    def size(self) -> int:  # type: ignore[override]
        return sum(trainer.source.size for trainer in self._trainers.values())

    def next(self) -> NoReturn:
        raise ValueError("each team has a source of its own: trainer.trainers[team].source")

    def fresh(self, horizon: int = 1) -> NoReturn:
        self.next()

    def progress(self, fraction: float) -> None:
        """The trainers of the teams pass it on."""

    def take(self) -> Tally:
        """Episodes of all agents, and of each team those of its own: `rollout/TEAM/return_mean`."""
        tallies = {name: trainer.source.take() for name, trainer in self._trainers.items()}
        infos: dict[str, list[float]] = {}
        for name, tally in tallies.items():
            for key, values in tally.infos.items():
                infos.setdefault(key, []).extend(values)
            own = {"return_mean": tally.returns, "length_mean": [float(length) for length in tally.lengths]}
            infos |= {of_team(name, key): values for key, values in {**own, **tally.infos}.items()}
        every = list(tallies.values())
        restarts = [reason for tally in every for reason in tally.restarts or ()]
        return Tally(
            returns=[value for tally in every for value in tally.returns],
            lengths=[length for tally in every for length in tally.lengths],
            bad_rows=sum(tally.bad_rows for tally in every),
            bad={reason: sum(tally.bad[reason] for tally in every) for reason in every[0].bad},
            infos=infos,
            restarts=None if all(tally.restarts is None for tally in every) else restarts,
            outside=next((tally.outside for tally in every if tally.outside), None),
            bad_row=next((tally.bad_row for tally in every if tally.bad_row), None),
            draws=draws_together(every),
        )

    def state_dict(self) -> State:
        return self.joint.state_dict()

    def load_state_dict(self, state: State) -> None:
        self.joint.load_state_dict(state)


def _is_warming(trainer: Trainer) -> bool:
    return isinstance(trainer.source, WarmsUp) and trainer.source.is_warming
