"""Gates: quality rules on evaluation. A run that does not meet them ends `failed: gate_failed`, never as completed;
one that reaches `stop_at`, or a plateau, is completed before its last epoch.

An evaluation misses when any rule is broken. Misses count only after the warm-up and only in a row: a policy may dip,
but `patience` misses one after the other end the run. The last evaluation must meet the rules whatever came before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rlstudio.core.contracts import State
from rlstudio.core.errors import GateFailed
from rlstudio.core.run_state import Reason
from rlstudio.experiment.config.judging import GatesConfig
from rlstudio.experiment.judging.plateau import Plateau
from rlstudio.ops.statistics import Summary


@dataclass(frozen=True)
class GateVerdict:
    """`passed`: this evaluation meets every rule. `failed`: the run must end now. `reasons`: the rules missed."""

    passed: bool
    failed: bool
    reasons: tuple[str, ...] = ()

    def enforce(self) -> None:
        """Raise GateFailed with the numbers when the run must end."""
        if self.failed:
            raise GateFailed("; ".join(self.reasons))


class Gates:
    """Judges one evaluation after the other; how many in a row missed the rules, or reached the goal, is its state."""

    def __init__(self, rules: GatesConfig) -> None:
        self.rules = rules
        self.misses = 0
        self.hits = 0
        self.plateau = None if rules.plateau is None else Plateau(rules.plateau)

    def follow(self, epoch: int, metrics: Mapping[str, float]) -> None:
        """Metrics of this epoch, for the plateau."""
        if self.plateau is not None:
            self.plateau.add(epoch, metrics)

    def goal_reached(self) -> bool:
        """Whether the run may end before its last epoch."""
        return self._has_hit() or (self.plateau is not None and self.plateau.is_over)

    def _has_hit(self) -> bool:
        return self.rules.stop_at is not None and self.hits >= self.rules.stop_after

    @property
    def active(self) -> bool:
        """Whether any rule applies at all."""
        return any(rule is not None for rule in (self.rules.min_return, self.rules.min_lower_bound, self.rules.max_std))

    def judge(self, epoch: int, summary: Summary) -> GateVerdict:
        """The verdict on the evaluation of `epoch` (counted from 1)."""
        broken = self._broken(summary)
        if self.rules.stop_at is not None:
            self.hits = self.hits + 1 if summary.mean >= self.rules.stop_at and not broken else 0
        if epoch <= self.rules.warmup_epochs:
            return GateVerdict(not broken, False, broken)
        self.misses = self.misses + 1 if broken else 0
        if not broken:
            return GateVerdict(True, False)
        count = f"epoch {epoch}: miss {self.misses} of {self.rules.patience} in a row"
        return GateVerdict(False, self.misses >= self.rules.patience, (*broken, count))

    def judge_final(self, epoch: int, summary: Summary) -> GateVerdict:
        """The verdict on the run's last evaluation: no warm-up and no patience. Changes nothing."""
        broken = self._broken(summary)
        return GateVerdict(not broken, bool(broken), (*broken, f"epoch {epoch}: final evaluation") if broken else ())

    def completion(self, epoch: int, epochs: int) -> tuple[Reason, str] | None:
        """Why a run that ends after `epoch` is completed before its last, for its status."""
        if epoch >= epochs or not self.goal_reached():
            return None
        if self.plateau is not None and not self._has_hit():
            return Reason.PLATEAU, self.plateau.message(epoch, epochs)
        held = f" in {self.rules.stop_after} evaluations in a row" if self.rules.stop_after > 1 else ""
        return Reason.GOAL, f"reached gates.stop_at={self.rules.stop_at:g}{held} after {epoch} of {epochs} epochs"

    def _broken(self, summary: Summary) -> tuple[str, ...]:
        # Every comparison is written so that NaN breaks the rule.
        rules, of = self.rules, f"over {summary.n} episode{'s' if summary.n != 1 else ''}"
        broken = []
        if rules.min_return is not None and not summary.mean >= rules.min_return:
            broken.append(f"mean return {summary.mean:.6g} {of} is below gates.min_return={rules.min_return:g}")
        if rules.min_lower_bound is not None:
            if summary.n < 2:
                broken.append("one episode has no lower bound for gates.min_lower_bound; raise eval.episodes")
            elif not summary.ci_low >= rules.min_lower_bound:
                limit = f"gates.min_lower_bound={rules.min_lower_bound:g}"
                broken.append(f"lower bound {summary.ci_low:.6g} of the mean return {of} is below {limit}")
        if rules.max_std is not None and not summary.std <= rules.max_std:
            broken.append(f"std {summary.std:.6g} of the return {of} is above gates.max_std={rules.max_std:g}")
        return tuple(broken)

    def state_dict(self) -> State:
        goal = {} if self.rules.stop_at is None else {"hits": self.hits}
        plateau = {} if self.plateau is None else {"plateau": self.plateau.state_dict()}
        return {"misses": self.misses, **goal, **plateau}

    def load_state_dict(self, state: State) -> None:
        self.misses = int(state["misses"])
        self.hits = int(state.get("hits", 0))
        if self.plateau is not None and "plateau" in state:  # a fork may have one that its parent had not
            self.plateau.load_state_dict(state["plateau"])
