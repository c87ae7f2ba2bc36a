"""A vector of PettingZoo environments from a config."""

from __future__ import annotations

from rlstudio.core.contracts import VecEnv
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.pettingzoo.recipe import PettingZooRecipe


def make_team_env(
    cfg: EnvConfig, num_envs: int, seed: int, vectorization: str, step_timeout: float, max_restarts: int
) -> VecEnv:
    recipe = PettingZooRecipe(cfg)
    if vectorization == "sync":
        from rlstudio.envs.pettingzoo.sync import PettingZooVecEnv

        return PettingZooVecEnv(recipe, num_envs, seed)
    from rlstudio.envs.pettingzoo.process_env import PettingZooProcessVecEnv

    return PettingZooProcessVecEnv(
        recipe, num_envs, seed, workers=cfg.workers, step_timeout=step_timeout, max_restarts=max_restarts
    )
