"""Short trials of an env on throw-away objects: does it repeat itself, and does a used object equal a fresh one?"""

from __future__ import annotations

from collections.abc import Callable
from zlib import crc32

import gymnasium
import numpy as np

from rlstudio.core.action_mask import ACTION_MASK, ActionMask
from rlstudio.core.contracts import Array
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Box, Dict, Discrete, MultiDiscrete, Spaces
from rlstudio.envs.gym.env_block import digest_of
from rlstudio.envs.gym.recipe import Recipe
from rlstudio.envs.gym.rows import Buffers, deliverer, row_views

PROBE_SEEDS = (11, 12, 13)
PROBE_STEPS = 24


def used_differs(recipe: Recipe, spaces: Spaces, tick: Callable[[], None] = lambda: None) -> bool:
    """Whether `reset(seed)` of an env that has been played differs from that of a fresh one (BipedalWalker's does).

    Positions are found again by replaying on fresh objects, so such an env must be fresh at every episode. `tick` is
    called as a sign of life before every call of the env.
    """
    try:
        with recipe.opened() as used:
            for seed in PROBE_SEEDS:
                with recipe.opened() as fresh:
                    digest = episode_digest(used, spaces, seed, tick=tick)
                    if digest != episode_digest(fresh, spaces, seed, tick=tick):
                        return True
    except (Exception, SystemExit):  # a broken env is reported with its name and place when it is used
        return False
    return False


def episode_digest(
    env: gymnasium.Env,
    spaces: Spaces,
    seed: int,
    steps: int = PROBE_STEPS,
    tick: Callable[[], None] = lambda: None,
) -> int:
    """Checksum of observations, rewards and flags over at most `steps` random steps."""
    rows = Buffers(spaces, 1)
    views = list(row_views(rows.observations, 0))
    deliver = deliverer(spaces.observation, rows.observations, 0)
    tick()
    observation, _ = env.reset(seed=seed)
    deliver(observation)
    digest = digest_of(views)
    mask = ActionMask.of(spaces)
    for action in random_actions(spaces, seed, steps):
        tick()
        observation, reward, terminated, truncated, _ = env.step(permitted(mask, rows.observations, 0, action))
        deliver(observation)
        digest = crc32(np.array([reward, terminated, truncated], np.float64).data, digest_of(views, digest))
        if terminated or truncated:
            break
    return digest


def random_actions(spaces: Spaces, seed: int, steps: int) -> list[int | np.ndarray]:
    """Actions as an agent would send them, a pure function of the seed."""
    generator = Rng(seed).at("probe", 0)
    match spaces.action:
        case Discrete(n=n):
            return [int(choice) for choice in generator.integers(0, n, steps)]
        case MultiDiscrete(nvec=nvec):
            return list(generator.integers(0, nvec, (steps, len(nvec))))
        case Box() as box:
            low, high = (np.clip(bound, -1e3, 1e3) for bound in box.bounds())
            return list(generator.uniform(low, high, (steps, *box.shape)).astype(np.float32))
        case Dict():
            raise TypeError("actions are never a Dict")


def permitted(mask: ActionMask | None, observations: Array, row: int, action: int | np.ndarray) -> int | np.ndarray:
    """The action itself, or in place of one that the env forbids another that it allows."""
    if mask is None:
        return action
    assert isinstance(observations, dict)
    allowed = mask.allowed({ACTION_MASK: observations[ACTION_MASK][row]})
    options = [np.flatnonzero(allowed[part]) for part in mask.parts]
    chosen = [int(some[choice % len(some)]) for some, choice in zip(options, np.atleast_1d(action), strict=True)]
    return chosen[0] if np.ndim(action) == 0 else np.array(chosen)
