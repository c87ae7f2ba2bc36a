"""Ledge: walk along a ledge to a lamp. A step off the end is forbidden; who takes it all the same falls.

    places 0 .. 6, choices left, stay, right        -|place - lamp| / 6 per step, and -fall for a fall, which is the end

State [place, lamp], shown as shares of the ledge. With `env.kwargs.mask: false` nothing says what is forbidden, and
planners, which know no action masks, can be used.
"""

from rlstudio.core.contracts import Transition
from rlstudio.core.spaces import Box, Dict, Discrete, Spaces

LAST = 6
NUMBERS = Box((2,), "float32", (0.0,), (1.0,))
MASK = Box((3,), "uint8", (0.0,), (1.0,))


class Ledge:
    id = "Ledge-v0"
    state_size = 2
    noise_size = 2
    limit = 12
    agents = 1
    params = {"fall": 2.0}

    def __init__(self, mask=True):
        self.mask = mask
        self.spaces = Spaces(Dict((("action_mask", MASK), ("numbers", NUMBERS))) if mask else NUMBERS, Discrete(3))

    def initial(self, noise, p, xp):
        return xp.floor(noise * (LAST + 1))

    def dynamics(self, states, actions, p, xp):
        place, lamp = states[..., 0] + (actions - 1.0), states[..., 1]
        falls = (place < 0) | (place > LAST)
        place = xp.clip(place, 0, LAST)
        rewards = -abs(place - lamp) / LAST - falls * p["fall"]
        return Transition(xp.stack((place, lamp), -1), rewards, falls)

    def observe(self, states, p, xp):
        if not self.mask:
            return states / LAST
        place = states[..., 0]
        allowed = xp.stack((place > 0, place >= 0, place < LAST), -1)
        return {"action_mask": allowed * 1, "numbers": states / LAST}

    def recall(self, observations, p, xp):
        numbers = observations["numbers"] if self.mask else observations
        return xp.floor(numbers * LAST + 0.5)
