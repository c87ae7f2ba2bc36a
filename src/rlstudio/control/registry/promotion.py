"""Promotion is a statistical decision: the candidate against what is in production, on the same fresh seeds.

Both play the same episodes, batch by batch, until the lower bound of the mean difference is above the margin (promote),
its upper bound is not (refuse), or the budget is spent (refuse: too few episodes to tell). The error rate holds over
all looks together (`ops.sequential`). Gates on the candidate alone come on top. The seeds are drawn for this decision,
so a checkpoint that was lucky on the seeds it was chosen by has no luck here.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field

import numpy as np
from pydantic import Field, PositiveInt

from rlstudio.core.config import Config
from rlstudio.core.rng import Rng
from rlstudio.ops.sequential import Look, look, spending
from rlstudio.ops.statistics import summarize

Play = Callable[[int, int], Sequence[float]]
"""(seed, episodes) -> returns: the same seed gives the same starts to both sides."""


class PromotionConfig(Config):
    margin: float = 0.0
    """By how much the candidate must be better, in returns; a negative one tolerates a little less."""

    alpha: float = Field(0.025, gt=0, lt=0.5)
    """How often at most a candidate that is not better by the margin may be promoted."""

    first_look: PositiveInt = Field(20, ge=10, le=100_000)
    """Episodes before the first decision; each further look has twice as many."""

    budget: PositiveInt = Field(160, le=1_000_000)
    """Episodes of each side at most."""

    min_return: float | None = None
    """The lower bound of the candidate's mean return must reach it."""

    max_std: float | None = Field(None, ge=0)
    """The candidate's returns may spread no further over the seeds."""

    worst_share: float = Field(0.1, gt=0, lt=1)
    """Share of the worst episodes that `worst_return` looks at."""

    worst_return: float | None = None
    """The mean of the worst episodes must reach it."""

    def looks(self) -> list[int]:
        """How many episodes have been played at each look."""
        episodes = [self.first_look]
        while episodes[-1] < self.budget:
            episodes.append(min(2 * episodes[-1], self.budget))
        return episodes


@dataclass(frozen=True)
class PromotionVerdict:
    """The decision with every number it rests on."""

    promote: bool
    reason: str
    seed: int
    episodes: int
    candidate: dict[str, float]
    incumbent: dict[str, float] | None = None
    looks: list[Look] = field(default_factory=list)
    gates: dict[str, dict[str, float]] = field(default_factory=dict)
    settings: dict[str, object] = field(default_factory=dict)

    def to_json(self) -> dict[str, object]:
        return asdict(self)


def judge(candidate: Play, incumbent: Play | None, cfg: PromotionConfig, seed: int | None = None) -> PromotionVerdict:
    """Play until the difference is decided or the budget is spent. Without an incumbent only the gates decide."""
    seed = secrets.randbits(31) if seed is None else seed
    looks = cfg.looks() if incumbent is not None else [cfg.budget]
    spent = spending(looks, cfg.alpha)
    ours: list[float] = []
    theirs: list[float] = []
    comparisons: list[Look] = []
    answer = ""
    for number, (wanted, alpha) in enumerate(zip(looks, spent, strict=True)):
        more = wanted - len(ours)
        ours += candidate(seed + number, more)
        if incumbent is None:
            break
        theirs += incumbent(seed + number, more)
        comparisons.append(look(np.subtract(ours, theirs), alpha))
        if comparisons[-1].passes(cfg.margin):
            answer = "better"
            break
        if comparisons[-1].is_hopeless(cfg.margin):
            answer = "worse"
            break
    gates = _gates(ours, cfg)
    failed = [name for name, gate in gates.items() if gate["found"] < gate["wanted"]]
    promote = not failed and (incumbent is None or answer == "better")
    return PromotionVerdict(
        promote=promote,
        reason=_reason(answer, failed, gates, comparisons, cfg, incumbent is None),
        seed=seed,
        episodes=len(ours),
        candidate=_summary(ours),
        incumbent=_summary(theirs) if theirs else None,
        looks=comparisons,
        gates=gates,
        settings=cfg.model_dump(mode="json"),
    )


def _gates(returns: Sequence[float], cfg: PromotionConfig) -> dict[str, dict[str, float]]:
    """Each gate as the number that was `found` and the one that is `wanted`; more is better."""
    values = np.sort(np.asarray(returns, np.float64))
    summary = summarize(values, Rng(0, "promotion").generator())
    worst = float(values[: max(1, round(cfg.worst_share * len(values)))].mean())
    gates: dict[str, dict[str, float]] = {}
    if cfg.min_return is not None:
        gates["min_return"] = {"found": summary.ci_low, "wanted": cfg.min_return}
    if cfg.max_std is not None:
        gates["max_std"] = {"found": -summary.std, "wanted": -cfg.max_std}
    if cfg.worst_return is not None:
        gates["worst_return"] = {"found": worst, "wanted": cfg.worst_return}
    return gates


def _reason(
    answer: str,
    failed: Sequence[str],
    gates: dict[str, dict[str, float]],
    comparisons: Sequence[Look],
    cfg: PromotionConfig,
    is_first: bool,
) -> str:
    if failed:
        gate = gates[failed[0]]
        return f"gate {failed[0]}: {abs(gate['found']):.4g}, wanted {abs(gate['wanted']):.4g}"
    if is_first:
        return "nothing is in production, and every gate is met"
    last = comparisons[-1]
    numbers = f"mean difference {last.mean:.4g}, bounds [{last.lower:.4g}, {last.upper:.4g}] after {last.n} episodes"
    if answer == "better":
        return f"better: {numbers}"
    if answer == "worse":
        by = f" by the margin of {cfg.margin:g}" if cfg.margin else ""
        return f"not better than production{by}: {numbers}"
    return f"too few episodes to tell: {numbers}; raise the budget"


def _summary(returns: Sequence[float]) -> dict[str, float]:
    return summarize(returns, Rng(0, "promotion").generator()).to_json()
