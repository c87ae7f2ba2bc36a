"""The cells of the learning table: a config that ships with RLStudio, and what was published for its budget.

Published scores are rl-zoo3's `benchmark.md`: one run, deterministic evaluation, mean and standard deviation. They are
for LunarLander-v2 and MuJoCo-v3, which are no longer made; ours are for LunarLander-v3 and MuJoCo-v5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from benchmarks import rl_zoo3

SOURCE = "rl-zoo3 benchmark.md"


@dataclass(frozen=True)
class Published:
    mean: float
    std: float
    steps: int

    def __str__(self) -> str:
        steps = f"{self.steps // 1_000_000}M" if self.steps % 1_000_000 == 0 else f"{self.steps // 1000}k"
        return f"{self.mean:g} ± {self.std:g} ({steps})"


@dataclass(frozen=True)
class Cell:
    """One line: what is trained, over how many seeds, and what counts as solved (Gymnasium's threshold, if it has one).

    `zoo` are the hyper-parameters with which Stable-Baselines3 is trained here for comparison.
    """

    key: str
    config: str
    threshold: float | None
    published: Published | None = None
    zoo: dict[str, Any] | None = None
    seeds: int = 5

    @property
    def algo(self) -> str:
        return self.key.partition("_")[0]


def _cell(
    key: str,
    threshold: float | None,
    mean: float,
    std: float,
    steps: int,
    seeds: int = 5,
    zoo: dict[str, Any] | None = None,
) -> Cell:
    algo, _, world = key.partition("_")
    return Cell(key, f"configs/{algo}/{world}.yaml", threshold, Published(mean, std, steps), zoo, seeds)


CELLS: tuple[Cell, ...] = (
    Cell("ppo_cartpole_mvp", "configs/ppo/cartpole_mvp.yaml", 475.0, seeds=10),  # a promise of its own: all solve it
    _cell("ppo_cartpole", 475.0, 500, 0, 100_000, 10, rl_zoo3.PPO_CARTPOLE_ZOO),
    _cell("ppo_acrobot", -100.0, -73.5, 18.2, 1_000_000, 10, rl_zoo3.PPO_ACROBOT_ZOO),
    _cell("ppo_mountaincar", -110.0, -110.4, 19.5, 1_000_000),
    _cell("ppo_lunarlander", 200.0, 242.1, 31.8, 1_000_000),
    _cell("ppo_pendulum", None, -172.2, 104, 100_000),
    _cell("ppo_cartpole_novel", 475.0, 500, 0, 100_000),
    _cell("ppo_halfcheetah", 4800.0, 5819, 664, 1_000_000, 3),
    _cell("ppo_hopper", 3800.0, 2410, 10, 1_000_000, 3),
    _cell("a2c_cartpole", 475.0, 500, 0, 500_000),
    _cell("a2c_acrobot", -100.0, -83.4, 17.2, 500_000),
    _cell("a2c_mountaincar", -110.0, -111.3, 24.1, 1_000_000),
    _cell("a2c_lunarlander", 200.0, 155.8, 80.4, 200_000),
    _cell("a2c_pendulum", None, -163.0, 103, 1_000_000),
    _cell("dqn_cartpole", 475.0, 500, 0, 50_000, 10, rl_zoo3.DQN_CARTPOLE_ZOO),
    _cell("dqn_acrobot", -100.0, -76.6, 11.8, 100_000, 10, rl_zoo3.DQN_ACROBOT_ZOO),
    _cell("dqn_mountaincar", -110.0, -100.8, 9.9, 120_000),
    _cell("dqn_lunarlander", 200.0, 154.4, 79.2, 100_000),
    _cell("qrdqn_cartpole", 475.0, 500, 0, 50_000),
    _cell("qrdqn_acrobot", -100.0, -69.1, 10.0, 100_000),
    _cell("qrdqn_mountaincar", -110.0, -106.0, 15.5, 120_000),
    _cell("qrdqn_lunarlander", 200.0, 70.2, 225.0, 100_000),
    _cell("sac_pendulum", None, -157.0, 88.7, 20_000),
    _cell("sac_mountaincar_continuous", 90.0, 94.7, 1.1, 50_000),
    _cell("td3_pendulum", None, -151.9, 90.2, 20_000),
    _cell("td3_mountaincar_continuous", 90.0, 93.5, 0.1, 300_000),
)
