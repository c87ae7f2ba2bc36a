"""simple_speaker_listener_v4 of MPE2: one agent sees which landmark is meant, another one goes there.

    reward of both: -(distance of the listener to that landmark)^2
    the speaker stands still, sees the colour of the landmark and says one of three words
    the listener sees its own speed, the landmarks relative to it, and the word that was said last; it does not speak

State [the listener's place and speed, landmarks, which one is meant, words]; all places begin anywhere in [-1, 1]^2.
"""

from __future__ import annotations

from collections.abc import Mapping

from rlstudio.core.contracts import Transition
from rlstudio.core.contracts.arrays import AnyArray, Namespace, Params
from rlstudio.core.spaces import Box, Discrete, Spaces
from rlstudio.envs.worlds.kernel import one_hot
from rlstudio.envs.worlds.particles.discs import MOVES, distances, moved, points, push, rows

LANDMARKS = WORDS = 3
SENSITIVITY = 5.0
DARK, BRIGHT = 0.15, 0.65
"""A landmark is bright in one of three colours."""


def _numbers(count: int) -> Box:
    return Box((count,), "float32", (-float("inf"),), (float("inf"),))


class SpeakerListener:
    """Go where another agent says: the speaker sees the goal, the listener can move."""

    id = "mpe2/simple_speaker_listener_v4"
    state_size = 4 + 2 * LANDMARKS + 1 + WORDS
    noise_size = 2 + 2 * LANDMARKS + 1
    limit: int | None = 25
    agents = 2
    params: Mapping[str, float] = {}
    agent_names = ("speaker_0", "listener_0")
    agent_spaces = (
        Spaces(_numbers(LANDMARKS), Discrete(WORDS)),
        Spaces(_numbers(2 + 2 * LANDMARKS + WORDS), Discrete(MOVES)),
    )
    spaces = agent_spaces[1]

    def initial(self, noise: AnyArray, p: Params, xp: Namespace) -> AnyArray:
        places = noise[..., :-1] * 2.0 - 1.0
        meant = xp.floor(noise[..., -1:] * LANDMARKS)
        silence = xp.zeros_like(noise[..., :WORDS])
        here = places[..., :2]
        return xp.concatenate((here, xp.zeros_like(here), places[..., 2:], meant, silence), -1)

    def dynamics(self, states: AnyArray, actions: AnyArray, p: Params, xp: Namespace) -> Transition[AnyArray]:
        place, speed = points(states, 0, 1, xp), points(states, 2, 1, xp)
        place, speed = moved(place, speed, SENSITIVITY * push(actions[..., 1:], xp), xp)
        said = xp.zeros_like(states[..., -WORDS:]) + one_hot(actions[..., 0], WORDS, xp)
        following = xp.concatenate((rows(place, xp), rows(speed, xp), states[..., 4:-WORDS], said), -1)
        away = distances(points(states, 4, LANDMARKS, xp) - place, xp)
        reward = -xp.sum(away * away * self._meant(states, xp), -1)
        rewards = xp.stack((reward, reward), -1)
        return Transition(following, rewards, xp.zeros_like(rewards, dtype=xp.bool))

    def observe(self, states: AnyArray, p: Params, xp: Namespace) -> AnyArray:
        colour = DARK + (BRIGHT - DARK) * self._meant(states, xp)
        landmarks = points(states, 4, LANDMARKS, xp) - states[..., None, :2]
        listener = xp.concatenate((states[..., 2:4], rows(landmarks, xp), states[..., -WORDS:]), -1)
        nothing = xp.zeros_like(listener[..., LANDMARKS:])
        return xp.stack((xp.concatenate((colour + nothing[..., :LANDMARKS], nothing), -1), listener), -2)

    def _meant(self, states: AnyArray, xp: Namespace) -> AnyArray:
        """1 for the landmark to go to, 0 for the others."""
        return one_hot(states[..., -WORDS - 1], LANDMARKS, xp)
