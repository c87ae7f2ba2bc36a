"""The source of rank 0's trainer, as the loop has it: it reports for all ranks and warms up with them."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from rlstudio.core.batch import Batch
from rlstudio.core.contracts import DataSource, State, Tally, Trainer, WarmsUp
from rlstudio.core.errors import RLStudioError
from rlstudio.core.own_metrics import OWN_METRICS
from rlstudio.data.collect.tallies import from_state, together
from rlstudio.scale.ranks.commands import Command, Order
from rlstudio.scale.ranks.messages import decode
from rlstudio.scale.ranks.other_ranks import OtherRanks
from rlstudio.scale.ranks.shared import digest


class Lead(Protocol):
    """The trainer of rank 0 (`lead.LeadTrainer`)."""

    @property
    def own(self) -> Trainer: ...

    @property
    def fraction(self) -> float: ...

    def begun(self) -> OtherRanks: ...


class LeadSource:
    def __init__(self, lead: Lead) -> None:
        self._lead = lead

    @property
    def _own(self) -> DataSource:
        return self._lead.own.source

    def take(self) -> Tally:
        """Of all ranks; and where their weights are not the same bits any more, the run ends."""
        answers = [decode(answer) for answer in self._lead.begun().answers(Command(Order.TAKE))]
        mine = digest(self._lead.own)
        for rank, answer in enumerate(answers, 1):
            if answer["digest"] != mine:
                raise RLStudioError(
                    f"rank {rank}: its weights are no longer those of rank 0; resume the run, and report it: this is a"
                    " defect of the algorithm or of RLStudio"
                )
            OWN_METRICS.add(answer["logged"])
        return together([self._own.take(), *(from_state(answer["tally"]) for answer in answers)])

    @property
    def env_steps(self) -> int:
        return self._own.env_steps

    @property
    def size(self) -> int:
        return self._own.size

    @property
    def last(self) -> Batch | None:
        return self._own.last

    def next(self) -> Batch:
        return self._own.next()

    def fresh(self, horizon: int = 1) -> Batch:
        return self._own.fresh(horizon)

    def following(self, rows: Tensor, steps: int) -> Batch:
        return self._own.following(rows, steps)

    def after_warmup(self, rows: Tensor) -> Tensor:
        return self._own.after_warmup(rows)

    def feedback(self, rows: Tensor, values: Tensor) -> None:
        self._own.feedback(rows, values)

    def progress(self, fraction: float) -> None:
        self._own.progress(fraction)

    def state_dict(self) -> State:
        return self._own.state_dict()

    def load_state_dict(self, state: State) -> None:
        self._own.load_state_dict(state)


class WarmingLeadSource(LeadSource):
    @property
    def _warming(self) -> WarmsUp:
        source = self._own
        assert isinstance(source, WarmsUp)
        return source

    @property
    def is_warming(self) -> bool:
        return self._warming.is_warming

    def warm_up(self, most: int) -> bool:
        with self._lead.begun().doing(Command(Order.WARM_UP, self._lead.fraction, most)):
            return self._warming.warm_up(most)
