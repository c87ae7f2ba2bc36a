"""The first steps of env 0, played again at the first checkpoint.

A plain env is put back by replaying its actions. One that draws from the operating system, a clock or the global
generators does not repeat itself, and a resume of its run cannot be exact. A short replay on an env object of its own
finds that out while the run is young, instead of at the first resume.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from rlstudio.core.errors import RLStudioError
from rlstudio.core.rng import kept_generators
from rlstudio.core.spaces import Spaces
from rlstudio.envs.gym.blocks import Block, Blocks
from rlstudio.envs.gym.replay.replay_log import FirstSteps, Journal
from rlstudio.envs.gym.rows import Buffers
from rlstudio.envs.params.draw import Draw

SECONDS = 1.0
"""The replay stops at the next step after this time; what was equal until then counts as equal."""


def first_difference(
    steps: FirstSteps,
    blocks: Blocks,
    spaces: Spaces,
    seed: int,
    rebuild: bool,
    watch: Callable[[int], None] | None = None,
    draw: Draw | None = None,
    first: int = 0,
) -> str | None:
    """None where env 0, which is number `first` of the run, gave the same again, else where it did not. The vector and
    the global generators stay as they are. An env that cannot be played beside the others (it holds a port, say) tells
    nothing about repetition."""
    rows = blocks.rows(spaces, 1)
    block = blocks.block(spaces, rows, seed, first, rebuild, watch, draw)
    journal = Journal(rows)
    until = time.monotonic() + SECONDS
    with kept_generators():
        try:
            for checksum, again in zip(steps.checksums, _played(block, rows, journal, steps.actions), strict=True):
                if again != checksum:
                    return _describe(journal, first)
                if time.monotonic() >= until:
                    return None
        except RLStudioError:
            return None
        finally:
            block.close()
    return None


def _played(block: Block, rows: Buffers, journal: Journal, actions: Sequence[np.ndarray]) -> Iterator[int]:
    """The checksums of the reset and of each step."""
    block.reset()
    journal.restart()
    yield journal.first_steps.checksums[-1]
    for action in actions:
        block.step(action[None])
        journal.record(action[None], rows.ended())
        yield journal.first_steps.checksums[-1]


def _describe(journal: Journal, first: int) -> str:
    return (
        f"env {first}, episode {journal.episodes[0]}, step {journal.elapsed(0)}: it gave something else when its first"
        " steps were replayed; all that is random in an env must come from self.np_random"
    )
