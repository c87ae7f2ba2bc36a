"""LeadTrainer: the trainer of rank 0, as a session has it. Each step is one of all ranks, and so is its state."""

from __future__ import annotations

from rlstudio.core.contracts import Agent, DataSource, Metrics, State, Stateful, Trainer, WarmsUp, WeighsItself
from rlstudio.scale.ranks.commands import Command, Order
from rlstudio.scale.ranks.group import averaged
from rlstudio.scale.ranks.lead_source import LeadSource, WarmingLeadSource
from rlstudio.scale.ranks.other_ranks import OtherRanks
from rlstudio.scale.ranks.shared import first_state, shared_state

PART = "ranks"
"""The name of what the other ranks have in the state of a trainer."""


class LeadTrainer:
    """`plan` is what the others build their trainer from."""

    def __init__(self, trainer: Trainer, ranks: OtherRanks, plan: State) -> None:
        self._trainer = trainer
        self._ranks = ranks
        self._plan = plan
        self._states = RankStates(self, ranks.size)
        self._fraction = 0.0
        self._has_begun = False
        kind = WarmingLeadSource if isinstance(trainer.source, WarmsUp) else LeadSource
        self.source: DataSource = kind(self)

    @property
    def own(self) -> Trainer:
        """The trainer of this process."""
        return self._trainer

    @property
    def fraction(self) -> float:
        return self._fraction

    def begun(self) -> OtherRanks:
        """The other ranks, where this trainer stands."""
        if not self._has_begun:
            ranks, given = self._ranks, self._states.given
            ranks.answers(Command(Order.BUILD, content=self._plan))
            state = first_state(self._trainer) if given is None else shared_state(self._trainer)
            with ranks.doing(Command(Order.LOAD, content=state)):
                pass
            if given is not None:
                ranks.load_own(given)
            self._states.given = None
            self._has_begun = True
        return self._ranks

    def train_step(self) -> Metrics:
        ranks = self.begun()
        with ranks.doing(Command(Order.STEP, self._fraction)):
            return averaged(self._trainer.train_step(), ranks.group)

    def progress(self, fraction: float) -> None:
        self._fraction = fraction
        self._trainer.progress(fraction)

    def stateful(self) -> dict[str, Stateful]:
        """Those of the other ranks come last: they are loaded once all others are."""
        return {**self._trainer.stateful(), PART: self._states}

    def forget(self) -> None:
        """The others are to be built and loaded anew."""
        self._has_begun = False

    # -- the same in all ranks ------------------------------------------------------------------------------------

    @property
    def agent(self) -> Agent:
        return self._trainer.agent

    @property
    def gradient_steps(self) -> int:
        return self._trainer.gradient_steps

    @property
    def skipped(self) -> float:
        return self._trainer.skipped

    @property
    def lr(self) -> float | None:
        return self._trainer.lr

    def weights_are_finite(self) -> bool:
        return self._trainer.weights_are_finite()

    def weight_rms(self) -> float:
        return self._trainer.weight_rms() if isinstance(self._trainer, WeighsItself) else 0.0

    def eval_step(self) -> Metrics:
        """Of the rows of rank 0."""
        return self._trainer.eval_step()


class RankStates:
    """What the other ranks have for themselves, as one part of the state."""

    def __init__(self, lead: LeadTrainer, size: int) -> None:
        self._lead, self._size = lead, size
        self.given: list[State] | None = None  # loaded, and not sent to them yet

    def state_dict(self) -> State:
        ranks = self._lead.begun()
        states = ranks.states()
        for state in states:
            ranks.exact = ranks.exact or state.pop("exact")
        return {str(rank): state for rank, state in enumerate(states, 1)}

    def load_state_dict(self, state: State) -> None:
        self.given = [state[str(rank)] for rank in range(1, self._size)]
        self._lead.forget()
