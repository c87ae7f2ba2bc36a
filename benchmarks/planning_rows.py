"""What `benchmarks.planning` plays: worlds, planners with their settings, and what they must earn on average."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Row:
    env_id: str
    starts: int
    planner: dict[str, Any]
    wanted: float | None  # least mean return; None: reported

    @property
    def key(self) -> str:
        return f"{self.env_id}-{self.planner['kind']}"


def _cartpole(kind: str, wanted: float | None = 475.0, **settings: Any) -> Row:
    return Row(
        "CartPole-v1", 20, {"kind": kind, "horizon": 15, "candidates": 64, "reward": "dense", **settings}, wanted
    )


def _pendulum(kind: str, **settings: Any) -> Row:
    return Row("Pendulum-v1", 20, {"kind": kind, "horizon": 20, **settings}, -140.0)


def _hill(kind: str, **settings: Any) -> Row:
    return Row(
        "MountainCar-v0", 20, {"kind": kind, "horizon": 60, "sticky": 0.9, "value": "physics", **settings}, -130.0
    )


def _swing(kind: str, **settings: Any) -> Row:
    return Row("Acrobot-v1", 20, {"kind": kind, "horizon": 25, "value": "physics", **settings}, -100.0)


ROWS = (
    Row("CartPole-v1", 50, {"kind": "random_shooting", "horizon": 15, "candidates": 256}, 500.0),
    _cartpole("cem", iterations=3),
    _cartpole("icem"),
    _cartpole("mppi"),
    _cartpole("annealed"),
    _cartpole("guided", iterations=3),
    Row("CartPole-v1", 20, {"kind": "mcts", "simulations": 32, "value": "physics"}, None),
    _pendulum("cem", candidates=64),
    _pendulum("icem", candidates=64),
    _pendulum("mppi", candidates=200),
    _pendulum("annealed", candidates=64),
    _hill("cem", candidates=64, iterations=3),
    _hill("icem", candidates=64, iterations=3),
    _swing("cem", candidates=64, iterations=3),
    _swing("icem", candidates=64, iterations=3),
)
