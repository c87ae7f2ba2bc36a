"""Recall: remember what the first step showed. Solved by every policy with a memory, by none without.

    observation one-hot of k at the first step, zeros after it; action Discrete(k)
    the episode ends `delay` steps later, with reward 1 when the last action is the one shown at first, else 0

Without memory the best return is 1 / k. State [step, cue].
"""

from __future__ import annotations

from collections.abc import Mapping

from rlstudio.core.contracts import Transition
from rlstudio.core.contracts.arrays import AnyArray, Namespace, Params
from rlstudio.core.spaces import Box, Discrete, Spaces
from rlstudio.envs.worlds.kernel import one_hot


class Recall:
    id = "rlstudio/Recall-v0"
    state_size = 2
    noise_size = 1
    limit: int | None = None
    agents = 1
    params: Mapping[str, float] = {}

    def __init__(self, k: int = 2, delay: int = 4) -> None:
        if k < 2 or delay < 1:
            raise ValueError(f"k must be at least 2 and delay at least 1, got {k} and {delay}")
        self.k = k
        self.delay = delay
        self.spaces = Spaces(Box((k,), "float32", (0.0,), (1.0,)), Discrete(k))

    def initial(self, noise: AnyArray, p: Params, xp: Namespace) -> AnyArray:
        return xp.concatenate((xp.zeros_like(noise), xp.floor(noise * self.k)), -1)

    def dynamics(self, states: AnyArray, actions: AnyArray, p: Params, xp: Namespace) -> Transition[AnyArray]:
        steps, cue = states[..., 0], states[..., 1]
        over = steps >= self.delay
        return Transition(xp.stack((steps + 1, cue), -1), over * (actions == cue) * 1.0, over)

    def observe(self, states: AnyArray, p: Params, xp: Namespace) -> AnyArray:
        return one_hot(states[..., 1], self.k, xp) * (states[..., :1] == 0)
