"""Short trials of a PettingZoo env on throw-away objects: does it repeat itself, and does a used one equal a fresh
one?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from zlib import crc32

import numpy as np

from rlstudio.core.action_mask import ActionMask
from rlstudio.core.rng import kept_generators
from rlstudio.envs.gym.env_block import digest_of
from rlstudio.envs.gym.probe import PROBE_SEEDS, PROBE_STEPS, permitted, random_actions
from rlstudio.envs.gym.rows import row_views
from rlstudio.envs.pettingzoo.recipe import PettingZooRecipe
from rlstudio.envs.pettingzoo.team_block import TeamBlock
from rlstudio.envs.pettingzoo.team_rows import TeamBuffers


def used_differs(recipe: PettingZooRecipe, tick: Callable[[], None] = lambda: None) -> bool:
    """Whether `reset(seed)` of an env that has been played differs from that of a fresh one. Positions are found again
    by replaying on fresh objects, so such an env must be fresh at every episode."""
    try:
        with kept_generators():
            return episode_digests(recipe, fresh=True, tick=tick) != episode_digests(recipe, fresh=False, tick=tick)
    except (Exception, SystemExit):  # a broken env is reported with its name and place when it is used
        return False


def episode_digests(
    recipe: PettingZooRecipe, *, fresh: bool, steps: int = PROBE_STEPS, tick: Callable[[], None] = lambda: None
) -> list[int]:
    """Checksums of a few episodes with random actions, at most `steps` each: what was shown, paid and ended."""
    rows = TeamBuffers(recipe.team.together, 1, len(recipe.team.names))
    block = TeamBlock(recipe, rows, PROBE_SEEDS[0], watch=lambda _: tick())
    views = list(row_views(rows.observations, 0))
    digests = []
    try:
        for episode, seed in enumerate(PROBE_SEEDS):
            block.begin(0, episode, fresh)
            digest = digest_of(views)
            for actions in joint_actions(recipe, rows, seed, steps):
                block.step(actions)
                result = np.array([rows.rewards, rows.terminated, rows.truncated, rows.active], np.float64)
                digest = crc32(result.data, digest_of(views, digest))
                if rows.over[0]:
                    break
            digests.append(digest)
    finally:
        block.close()
    return digests


def joint_actions(recipe: PettingZooRecipe, rows: TeamBuffers, seed: int, steps: int) -> Iterator[np.ndarray]:
    """Actions [1, agents, ...] as agents would send them, a pure function of the seed and of what the masks allow."""
    team = recipe.team
    drawn = [random_actions(spaces, seed + 1000 * number, steps) for number, spaces in enumerate(team.spaces)]
    masks = [ActionMask.of(spaces) for spaces in team.spaces]
    for step in range(steps):
        joint = np.zeros_like(rows.actions)
        for number, (spaces, mask) in enumerate(zip(team.spaces, masks, strict=True)):
            allowed = permitted(mask, rows.in_columns, number, drawn[number][step])
            own = joint[0, number]
            if own.ndim:
                own[tuple(slice(0, size) for size in spaces.action.shape)] = allowed  # type: ignore[union-attr]
            else:
                joint[0, number] = allowed
        yield joint
