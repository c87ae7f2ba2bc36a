"""Collapse: training that went wrong although every number stayed finite. It is reported and ends nothing.

    weights     their root mean square is over `GROWTH` times that at the start, and the return never rose much
                (or fell back by half of what it had gained)
    policy      the entropy of its choices is below `ENTROPY_SHARE` of what they could have, and the return lies
                below that of the first epoch (or fell back by half of what it had gained)

Each sign alone is also seen in healthy runs: a solved task makes a policy certain, an unlucky one gains nothing. The
two together mean a learning rate that is far too high: weights that large saturate the network, and a policy without
entropy has no gradient to come back by. Returns are means over `WINDOW` epochs.

Nothing here is state: the returns are read again from the run's own metrics, so checkpoints stay what they were.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from math import inf, isfinite, log, prod
from pathlib import Path
from statistics import fmean

from rlstudio.core.contracts import Trainer, WeighsItself
from rlstudio.core.run_state import Reason
from rlstudio.core.spaces import Discrete, MultiDiscrete, Space
from rlstudio.experiment.metrics.reader import read_metrics

RETURN, ENTROPY = "rollout/return_mean", "train/entropy"
WINDOW = 5
GROWTH = 30.0
"""Weights hardly grow in a run that learns: PPO on CartPole-v1 ends at 1.2 times its start, with train.lr=10 at 240."""

SMALLEST_START = 0.1
"""Root mean square that small first weights count as, for a network may begin with zeros."""

ENTROPY_SHARE = 0.01
MARGIN, RISE = 0.05, 0.5
"""Of the first return: what a mean of a few episodes may differ by, and what learning adds at least."""


class CollapseWatch:
    """Fed with the metrics of each epoch; `reason` is None while the run looks healthy."""

    def __init__(self, trainer: Trainer, actions: Space) -> None:
        self.reason: str | None = None
        self._trainer = trainer
        self._start = max(_weight_rms(trainer), SMALLEST_START)
        self._entropy_limit = _largest_entropy(actions) * ENTROPY_SHARE
        self._first: float | None = None
        self._best: float | None = None
        self._returns: deque[float] = deque(maxlen=WINDOW)
        self._entropies: deque[float] = deque(maxlen=WINDOW)

    def read(self, run_dir: Path) -> None:
        """Take in the epochs that the run has recorded so far."""
        for record in read_metrics(run_dir, keys={RETURN, ENTROPY}):
            self._take(record.key, record.value)
        self._judge()

    def add(self, metrics: Mapping[str, float]) -> bool:
        """One more epoch; True where it is the first of a collapse."""
        before = self.reason
        for key in (RETURN, ENTROPY):
            if key in metrics:
                self._take(key, metrics[key])
        self._judge()
        return self.reason is not None and before is None

    def completion(self) -> tuple[Reason, str]:
        """How a run that reached its last epoch ends, for its status."""
        return (Reason.NONE, "") if self.reason is None else (Reason.COLLAPSED, self.reason)

    def _take(self, key: str, value: float) -> None:
        if not isfinite(value):  # no episode ended in that epoch
            return
        if key == ENTROPY:
            self._entropies.append(value)
            return
        self._first = value if self._first is None else self._first
        self._returns.append(value)
        if len(self._returns) == WINDOW:
            mean = fmean(self._returns)
            self._best = mean if self._best is None else max(self._best, mean)

    def _judge(self) -> None:
        self.reason = None
        if self._first is None or self._best is None:
            return
        now, first, margin = fmean(self._returns), self._first, MARGIN * abs(self._first)
        gained = self._best - first
        fell = gained > margin and now < self._best - gained / 2
        result = f"the return is {now:.4g}, after {f'{self._best:.4g} before' if fell else f'{first:.4g} at the start'}"
        growth = _weight_rms(self._trainer) / self._start
        certain = len(self._entropies) == WINDOW and max(self._entropies) < self._entropy_limit
        if growth > GROWTH and (fell or gained <= RISE * abs(first)):
            self.reason = f"collapsed: the weights are {growth:.0f} times as large as at the start, and {result}"
        elif certain and (fell or now < first - margin):
            self.reason = (
                f"collapsed: the policy always does the same (entropy {self._entropies[-1]:.2g}), and {result}"
            )
        if self.reason is not None:
            self.reason += "; lower train.lr"


def _weight_rms(trainer: Trainer) -> float:
    return trainer.weight_rms() if isinstance(trainer, WeighsItself) else 0.0


def _largest_entropy(actions: Space) -> float:
    """Of a policy over these choices; where actions are numbers, nothing that one could lie below."""
    if isinstance(actions, Discrete):
        return log(actions.n)
    return log(prod(actions.nvec)) if isinstance(actions, MultiDiscrete) else -inf
