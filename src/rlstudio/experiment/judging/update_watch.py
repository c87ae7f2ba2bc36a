"""UpdateWatch: what the metrics of every update say about its health. Nothing is computed for it on the device.

    not_finite  a loss or a norm that is no number, in three updates of the last 20: one is skipped and no harm
    spike       log |x| > mean + 6 max(sigma, FLOOR) over the last 128 updates, and |x| more than `ABOVE` times the
                largest before, for a loss or a gradient norm; in three updates of the last 20
    weights     `GROWN` times as large as at the look before, or in the first updates as at the start
    kl          an update moves the policy by more than `LARGEST_KL`, three of the last 20; only where a clip fraction
                is beside it, because a planner's or a model's own `kl` is no distance between two policies
    q_scale     |Q| > Q_ROOM (r_max + entropy bonus) / (1 - gamma), which no sum of the rewards so far comes near, and
                more than the outputs of a network that has learned nothing
    entropy     of choices: below `LOST` times the lowest of the last 16 updates, twice (a solved task takes longer),
                while that was over `VARIETY` nats: a policy that is nearly certain has little to lose
    dead_value  the explained variance falls from over `ALIVE` to nothing, and stays there

Losses of reinforcement learning are heavy-tailed and grow with the returns, hence the logarithm, the floor of sigma and
the largest before; where the rewards grow, the statistics begin anew. A spike is no part of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import exp, inf, isfinite, log, sqrt

from rlstudio.core.contracts import State
from rlstudio.experiment.judging.incidents import Symptom

WINDOW = 128
LEAST = 16
"""Updates before a spike is one."""

SIGMAS, FLOOR, ABOVE = 6.0, 0.5, 5.0
STRIKES, OF_LAST = 3, 20
SKIP_ABOVE = 1e3
"""Times the largest norm so far: from there on the optimizer skips a gradient as it comes."""

GROWN, SMALLEST = 3.0, 0.1
LARGEST_KL = 0.5
"""Of one update: sixteen times the most that healthy runs of the learning table show."""

Q_ROOM, SMALL_Q = 2.0, 10.0
LOST, VARIETY, RECENT, TWICE = 0.02, 0.01, 16, 2
ALIVE, ALIVE_UPDATES = 0.3, 5
DEAD, DEAD_UPDATES = 1e-3, 10
NORM = "grad_norm"


@dataclass
class LogSpread:
    """Mean and deviation of log |x| over about `WINDOW` values, and the largest |x|."""

    count: int = 0
    mean: float = 0.0
    square: float = 0.0  # the mean of the squared deviations
    largest: float = 0.0

    @property
    def limit(self) -> float:
        """From here on a value is a spike."""
        if self.count < LEAST:
            return inf
        far = self.mean + SIGMAS * max(sqrt(self.square), FLOOR)
        return max(exp(min(far, 700.0)), ABOVE * self.largest)

    def add(self, size: float) -> None:
        if size <= 0.0:
            return
        self.count += 1
        weight = 1.0 / min(self.count, WINDOW)
        off = log(size) - self.mean
        self.mean += weight * off
        self.square += weight * ((1.0 - weight) * off * off - self.square)
        self.largest = max(self.largest, size)


def _is_of_a_model(name: str, names: Sequence[str]) -> bool:
    """A `kl` without a clip fraction beside it."""
    room, slash, own = name.rpartition("/")
    return own == "kl" and f"{room}{slash}clip_fraction" not in names


@dataclass
class UpdateWatch:
    gamma: float | None
    choices: bool = False  # the policy is one over choices, whose entropy has a zero
    spreads: dict[str, LogSpread] = field(default_factory=dict)
    strikes: dict[str, list[int]] = field(default_factory=dict)  # the updates at which a metric was a spike
    entropies: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT))
    updates: int = 0
    certain: int = 0  # updates in a row in which the policy had hardly any entropy
    weights: float = 0.0  # their root mean square, of the last look,
    first_weights: float = 0.0  # and of the first
    explained: int = 0  # updates in which the value explained much of the returns,
    dead: int = 0  # and then nothing

    @property
    def gradient_limit(self) -> float:
        """Of a norm; infinite until enough is known."""
        spread = self.spreads.get(NORM)
        return inf if spread is None or spread.count < LEAST else max(spread.limit, SKIP_ABOVE * spread.largest)

    def begin_anew(self) -> None:
        """The rewards have grown: what was usual before says nothing any more."""
        self.spreads, self.strikes = {}, {}

    def weigh(self, rms: float, *, is_early: bool = False) -> Iterator[Symptom]:
        """`is_early`: hardly anything was learned yet, so that the weights are compared with those at the start."""
        before, self.weights = self.first_weights if is_early else self.weights, rms
        if not isfinite(rms):
            yield Symptom("not_finite", "the weights are not finite")
        elif not self.first_weights:
            self.first_weights = rms
        elif rms > GROWN * max(before, SMALLEST):
            yield Symptom("weights", f"the weights grew from {before:.3g} to {rms:.3g} within a few updates")

    def judge(self, names: Sequence[str], rows: Sequence[Sequence[float]], largest_reward: float) -> Iterator[Symptom]:
        """What these updates show, oldest first. `largest_reward`: the largest |r| that the run has seen."""
        own = [name.rpartition("/")[2] for name in names]  # of a team, without its name
        watched = [(at, name) for at, name in enumerate(names) if not _is_of_a_model(name, names)]
        for row in rows:
            self.updates += 1
            largest_return = self._largest_return(own, row, largest_reward)
            for at, name in watched:
                yield from self._judge(name, own[at], row[at], largest_return)

    def _largest_return(self, own: Sequence[str], row: Sequence[float], largest_reward: float) -> float:
        """What discounted rewards, with the bonus that some algorithms add for entropy, sum up to; infinite where that
        is not known."""
        if self.gamma is None or self.gamma >= 1.0 or largest_reward <= 0.0:
            return inf
        values = dict(zip(own, row, strict=True))
        bonus = abs(values.get("temperature", 0.0) * values.get("entropy", 0.0))
        return (largest_reward + bonus) / (1.0 - self.gamma)

    def _judge(self, name: str, own: str, value: float, largest_return: float) -> Iterator[Symptom]:
        if own == "explained_variance":
            yield from self._explained(name, value)
        elif not isfinite(value):
            if (times := self._strike(name)) >= STRIKES:
                yield Symptom("not_finite", f"train/{name} is {value}, {times} times in {OF_LAST} updates")
        elif own == "kl":
            if value > LARGEST_KL and (times := self._strike(name)) >= STRIKES:
                what = f"train/{name} of one update is {value:.4g} (limit {LARGEST_KL:g})"
                yield Symptom("kl", f"{what}; {times} such updates of the last {OF_LAST}")
        elif own == "entropy":
            yield from self._entropy(name, value)
        elif own in ("q", "target"):
            yield from self._q_scale(name, value, largest_return)
        elif own == NORM or own.endswith("loss"):
            yield from self._spike(name, abs(value))

    def _spike(self, name: str, size: float) -> Iterator[Symptom]:
        spread = self.spreads.setdefault(name, LogSpread())
        limit = spread.limit
        if size <= limit:
            spread.add(size)
            return
        recent = [at for at in self.strikes.get(name, []) if self.updates - at < OF_LAST] + [self.updates]
        self.strikes[name] = recent
        if len(recent) >= STRIKES:
            what = (
                f"train/{name} is {size:.4g}, where {exp(spread.mean):.3g} was usual and {spread.largest:.3g} the most"
            )
            yield Symptom("spike", f"{what}; {len(recent)} such updates of the last {OF_LAST}")

    def _strike(self, name: str) -> int:
        """Count this update against a metric; how many of the last ones do."""
        recent = [at for at in self.strikes.get(name, []) if self.updates - at < OF_LAST] + [self.updates]
        self.strikes[name] = recent
        return len(recent)

    def _q_scale(self, name: str, value: float, largest_return: float) -> Iterator[Symptom]:
        if abs(value) > max(Q_ROOM * largest_return, SMALL_Q):
            yield Symptom(
                "q_scale", f"train/{name} is {value:.4g}; the rewards so far sum up to at most {largest_return:.4g}"
            )

    def _entropy(self, name: str, value: float) -> Iterator[Symptom]:
        lowest = min(self.entropies) if len(self.entropies) == RECENT else 0.0
        if not self.choices or lowest < VARIETY or value >= LOST * lowest:
            self.entropies.append(value)
            self.certain = 0
            return
        self.certain += 1
        if self.certain >= TWICE:
            yield Symptom(
                "entropy", f"train/{name} is {value:.3g}, and was at least {lowest:.3g} in the updates before"
            )

    def _explained(self, name: str, value: float) -> Iterator[Symptom]:
        self.explained += value > ALIVE
        self.dead = self.dead + 1 if abs(value) < DEAD else 0
        if self.dead >= DEAD_UPDATES and self.explained >= ALIVE_UPDATES:
            yield Symptom(
                "dead_value", f"train/{name} is {value:.2g} for {self.dead} updates, after it was over {ALIVE:g}"
            )

    def state_dict(self) -> State:
        return {
            "spreads": {name: list(vars(spread).values()) for name, spread in self.spreads.items()},
            "strikes": {name: list(at) for name, at in self.strikes.items()},
            "entropies": list(self.entropies),
            "counts": [self.updates, self.explained, self.dead, self.certain],
            "weights": [self.first_weights, self.weights if isfinite(self.weights) else 0.0],
        }

    def load_state_dict(self, state: State) -> None:
        self.spreads = {name: LogSpread(int(count), *rest) for name, (count, *rest) in state["spreads"].items()}
        self.strikes = {name: list(at) for name, at in state["strikes"].items()}
        self.entropies = deque(state["entropies"], maxlen=RECENT)
        self.updates, self.explained, self.dead, self.certain = state["counts"]
        self.first_weights, self.weights = state["weights"]
