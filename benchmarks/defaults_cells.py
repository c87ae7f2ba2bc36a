"""The cells of the table of defaults: an algorithm on an environment for which no preset ships.

Half of the environments of an algorithm are marked `chosen on`: its defaults were chosen by what they do there. The
other half is held out: no default was changed because of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

MINIGRID = ("ImgObsWrapper", "FlattenObservation")
"""The view as a flat row, for both sides: neither library reads the text of the mission."""


@dataclass(frozen=True)
class DefaultsCell:
    """`epochs` times `steps_per_epoch` environment steps of one algorithm in one environment."""

    algo: str
    env_id: str
    chosen_on: bool
    epochs: int
    steps_per_epoch: int
    episodes: int = 20

    @property
    def key(self) -> str:
        return f"{self.algo}_{self.env_id}"

    @property
    def env_steps(self) -> int:
        return self.epochs * self.steps_per_epoch

    @property
    def wrappers(self) -> tuple[str, ...]:
        return MINIGRID if self.env_id.startswith("MiniGrid") else ()

    @property
    def overrides(self) -> list[str]:
        """What is launched beside the names of algorithm and environment: how long, and what the world shows."""
        shown = [f"env.wrappers=[{', '.join(self.wrappers)}]"] if self.wrappers else []
        return [f"train.epochs={self.epochs}", f"train.steps_per_epoch={self.steps_per_epoch}", *shown]

    @property
    def peer(self) -> dict[str, Any]:
        """Stable-Baselines3 with nothing but its defaults, in the form of `benchmarks/rl_zoo3.py`."""
        plain = {"n_envs": 1, "normalize": False, "linear": [], "model": {}}
        return {"algo": self.algo, "env_id": self.env_id, "wrappers": list(self.wrappers), **plain}


EPISODES = {"FrozenLake-v1": 100, "FrozenLake8x8-v1": 100, "Taxi-v4": 100}
"""More than twenty where episodes are short and luck decides much of each."""


def _cells(
    algo: str, epochs: int, steps_per_epoch: int, chosen_on: tuple[str, ...], held_out: tuple[str, ...]
) -> tuple[DefaultsCell, ...]:
    return tuple(
        DefaultsCell(algo, env_id, env_id in chosen_on, epochs, steps_per_epoch, EPISODES.get(env_id, 20))
        for env_id in (*chosen_on, *held_out)
    )


CONTINUOUS = ("InvertedDoublePendulum-v5", "Hopper-v5", "LunarLanderContinuous-v3")
CONTINUOUS_HELD_OUT = ("InvertedPendulum-v5", "HalfCheetah-v5", "Reacher-v5")
ROLLOUTS = (
    "InvertedDoublePendulum-v5",
    "InvertedPendulum-v5",
    "Swimmer-v5",
    "LunarLanderContinuous-v3",
    "FrozenLake-v1",
    "MiniGrid-Empty-5x5-v0",
)
ROLLOUTS_HELD_OUT = (
    "Reacher-v5",
    "Walker2d-v5",
    "BipedalWalker-v3",
    "MountainCarContinuous-v0",
    "Taxi-v4",
    "MiniGrid-LavaGapS5-v0",
)
CHOICES = ("FrozenLake-v1", "MiniGrid-Empty-5x5-v0", "MiniGrid-LavaGapS5-v0")
CHOICES_HELD_OUT = ("FrozenLake8x8-v1", "Taxi-v4", "MiniGrid-DoorKey-5x5-v0")

CELLS: tuple[DefaultsCell, ...] = (
    *_cells("sac", 10, 1000, CONTINUOUS, CONTINUOUS_HELD_OUT),
    *_cells("td3", 10, 1000, CONTINUOUS, CONTINUOUS_HELD_OUT),
    *_cells("dqn", 50, 1000, CHOICES, CHOICES_HELD_OUT),
    *_cells("qrdqn", 20, 1000, CHOICES[:2], CHOICES_HELD_OUT[1:2]),
    *_cells("ppo", 49, 2048, ROLLOUTS, ROLLOUTS_HELD_OUT),
    *_cells("a2c", 25, 4000, ROLLOUTS, ROLLOUTS_HELD_OUT),
)
