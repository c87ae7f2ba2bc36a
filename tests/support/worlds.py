"""Worlds as another package would bring them: importing this module makes them known.

`toys/Slider-v0` has parameters and equations to plan in, `toys/MaskedWorld-v0` shows a dict with an action mask,
`toys/TwoTurns-v0` has two agents that take turns, `toys/ThreeAgents-v0` also one that dies early. In `toys/Roles-v0`
agents have names, spaces of their own and another right answer to the same question. In `toys/Luck-v0` what is still
to come depends on what no agent sees.
"""

from __future__ import annotations

from collections.abc import Mapping

from rlstudio.core.catalog import WORLDS
from rlstudio.core.contracts import Transition
from rlstudio.core.contracts.arrays import AnyArray, Namespace, Params
from rlstudio.core.spaces import Box, Dict, Discrete, Spaces
from rlstudio.envs.worlds import dice
from rlstudio.envs.worlds.kernel import one_hot

CHOICES, LENGTH = 4, 8


class Slider:
    """A mass on a line with friction, to be pushed to the middle. State [x, v], which is shown as it is."""

    id = "toys/Slider-v0"
    spaces = Spaces(Box((2,), "float32", (-10.0,), (10.0,)), Box((1,), "float32", (-1.0,), (1.0,)))
    state_size = 2
    noise_size = 1
    agents = 1
    params: Mapping[str, float] = {"mass": 1.0, "friction": 0.1}
    reward_range = (-100.0, 0.0)

    def __init__(self, limit: int = 40) -> None:
        self.limit: int | None = limit

    def initial(self, noise: AnyArray, p: Params, xp: Namespace) -> AnyArray:
        x = noise[..., 0] * 2.0 - 1.0
        return xp.stack((x, xp.zeros_like(x)), -1)

    def dynamics(self, states: AnyArray, actions: AnyArray, p: Params, xp: Namespace) -> Transition[AnyArray]:
        x, speed = states[..., 0], states[..., 1]
        speed = speed + (actions[..., 0] - p["friction"] * speed) / p["mass"] * 0.2
        x = xp.clip(x + speed * 0.2, -10.0, 10.0)
        return Transition(xp.stack((x, speed), -1), -x * x, abs(x) >= 10.0)

    def observe(self, states: AnyArray, p: Params, xp: Namespace) -> AnyArray:
        return states

    def recall(self, observations: AnyArray, p: Params, xp: Namespace) -> AnyArray:
        return observations


class MaskedWorld:
    """Shows a number per choice; the best allowed one earns 1, a forbidden one costs `penalty`. State [step, dice]."""

    id = "toys/MaskedWorld-v0"
    spaces = Spaces(
        Dict(
            (
                ("action_mask", Box((CHOICES,), "uint8", (0.0,), (1.0,))),
                ("numbers", Box((CHOICES,), "float32", (-1.0,), (1.0,))),
                ("step", Discrete(LENGTH + 1)),
            )
        ),
        Discrete(CHOICES),
    )
    state_size = 2
    noise_size = 1
    limit: int | None = None
    agents = 1
    params: Mapping[str, float] = {"penalty": 10.0}

    def initial(self, noise: AnyArray, p: Params, xp: Namespace) -> AnyArray:
        return xp.concatenate((xp.zeros_like(noise), dice.first(noise, xp)), -1)

    def dynamics(self, states: AnyArray, actions: AnyArray, p: Params, xp: Namespace) -> Transition[AnyArray]:
        step, throw = states[..., 0] + 1, states[..., 1]
        allowed, numbers = self._choices(throw, xp)
        chosen = one_hot(actions, CHOICES, xp) > 0
        beaten = xp.any((numbers * 1.0 > self._number_of(chosen, numbers)[..., None]) & allowed, -1)
        forbidden = xp.any(chosen & ~allowed, -1)
        rewards = (~beaten & ~forbidden) * 1.0 - forbidden * p["penalty"]
        return Transition(xp.stack((step, dice.roll(throw)), -1), rewards, step >= LENGTH)

    def observe(self, states: AnyArray, p: Params, xp: Namespace) -> dict[str, AnyArray]:
        allowed, numbers = self._choices(states[..., 1], xp)
        return {"action_mask": allowed * 1, "numbers": numbers, "step": states[..., 0]}

    def _choices(self, throw: AnyArray, xp: Namespace) -> tuple[AnyArray, AnyArray]:
        """Which are allowed (at least one is), and the number of each."""
        throws = [throw]
        for _ in range(2 * CHOICES):
            throws.append(dice.roll(throws[-1]))
        faces = [dice.unit(one) for one in throws]
        numbers = xp.stack([face * 2.0 - 1.0 for face in faces[1 : CHOICES + 1]], -1)
        allowed = xp.stack(faces[CHOICES + 1 :], -1) < 0.6
        return allowed | (one_hot(xp.floor(faces[0] * CHOICES), CHOICES, xp) > 0), numbers

    def _number_of(self, chosen: AnyArray, numbers: AnyArray) -> AnyArray:
        parts = [chosen[..., i] * numbers[..., i] for i in range(CHOICES)]
        return parts[0] + parts[1] + parts[2] + parts[3]


class TwoTurns:
    """Two agents take turns to repeat the choice that both are shown. Who does so is paid 1 one step later, while it
    waits; the last action of an episode is paid at once. State [step, dice, owed].
    """

    id = "toys/TwoTurns-v0"
    spaces = Spaces(Box((CHOICES + 2,), "float32", (0.0,), (1.0,)), Discrete(CHOICES))
    state_size = 3
    noise_size = 1
    limit: int | None = None
    agents = 2
    params: Mapping[str, float] = {}

    def initial(self, noise: AnyArray, p: Params, xp: Namespace) -> AnyArray:
        return xp.concatenate((xp.zeros_like(noise), dice.first(noise, xp), xp.zeros_like(noise)), -1)

    def dynamics(self, states: AnyArray, actions: AnyArray, p: Params, xp: Namespace) -> Transition[AnyArray]:
        step, throw, owed = states[..., 0], states[..., 1], states[..., 2]
        first, over = step % 2 == 0, step + 1 >= LENGTH
        right = (xp.where(first, actions[..., 0], actions[..., 1]) == xp.floor(dice.unit(throw) * CHOICES)) * 1.0
        paid = right * over  # to who acts; what is owed goes to the other
        rewards = xp.stack((xp.where(first, paid, owed), xp.where(first, owed, paid)), -1)
        active = xp.stack((first, ~first), -1)
        following = xp.stack((step + 1, dice.roll(throw), right), -1)
        return Transition(following, rewards, xp.stack((over, over), -1), active)

    def observe(self, states: AnyArray, p: Params, xp: Namespace) -> AnyArray:
        target = one_hot(xp.floor(dice.unit(states[..., 1]) * CHOICES), CHOICES, xp)
        who = [one_hot(xp.zeros_like(states[..., 0]) + agent, 2, xp) for agent in range(2)]
        return xp.concatenate((xp.stack((target, target), -2), xp.stack(who, -2)), -1)


class ThreeAgents:
    """Each agent is shown a choice to repeat, and which agent it is; doing so earns 1. Agents 0 and 1 take turns, 0
    first; agent 2 acts in every step and is out after `death` of them. The others are out after LENGTH steps. Who waits
    is paid a quarter.

    State [step, dice].
    """

    id = "toys/ThreeAgents-v0"
    spaces = Spaces(Box((CHOICES + 3,), "float32", (0.0,), (1.0,)), Discrete(CHOICES))
    state_size = 2
    noise_size = 1
    limit: int | None = None
    agents = 3
    params: Mapping[str, float] = {"death": 3.0}

    def initial(self, noise: AnyArray, p: Params, xp: Namespace) -> AnyArray:
        return xp.concatenate((xp.zeros_like(noise), dice.first(noise, xp)), -1)

    def dynamics(self, states: AnyArray, actions: AnyArray, p: Params, xp: Namespace) -> Transition[AnyArray]:
        step, throw = states[..., 0], states[..., 1]
        first = step % 2 == 0
        active = xp.stack((first, ~first, xp.ones_like(first)), -1)
        rewards = xp.where(active, (actions == self._targets(throw, xp)) * 1.0, 0.25)
        over = step + 1 >= LENGTH
        terminated = xp.stack((over, over, step + 1 >= p["death"]), -1)
        return Transition(xp.stack((step + 1, dice.roll(throw)), -1), rewards, terminated, active)

    def observe(self, states: AnyArray, p: Params, xp: Namespace) -> AnyArray:
        targets = one_hot(self._targets(states[..., 1], xp), CHOICES, xp)
        who = [one_hot(xp.zeros_like(states[..., 0]) + agent, 3, xp) for agent in range(3)]
        return xp.concatenate((targets, xp.stack(who, -2)), -1)

    def _targets(self, throw: AnyArray, xp: Namespace) -> AnyArray:
        """Another one for each agent, [..., 3]."""
        face = xp.floor(dice.unit(throw) * CHOICES)
        return xp.stack([(face + agent) % CHOICES for agent in range(3)], -1)


class Roles:
    """All agents are shown the same choice. Agent `copier` is paid 1 for repeating it; the two agents `shifter_*`, who
    have fewer choices and are shown a number more, for (choice + 1) % 3. No policy is right for both. State [step,
    dice].
    """

    id = "toys/Roles-v0"
    spaces = Spaces(Box((CHOICES + 1,), "float32", (0.0,), (1.0,)), Discrete(CHOICES))
    agent_names = ("shifter_0", "copier", "shifter_1")
    agent_spaces = (
        Spaces(spaces.observation, Discrete(3)),
        Spaces(Box((CHOICES,), "float32", (0.0,), (1.0,)), Discrete(CHOICES)),
        Spaces(spaces.observation, Discrete(3)),
    )
    state_size = 2
    noise_size = 1
    limit: int | None = None
    agents = 3
    params: Mapping[str, float] = {}

    def initial(self, noise: AnyArray, p: Params, xp: Namespace) -> AnyArray:
        return xp.concatenate((xp.zeros_like(noise), dice.first(noise, xp)), -1)

    def dynamics(self, states: AnyArray, actions: AnyArray, p: Params, xp: Namespace) -> Transition[AnyArray]:
        step, throw = states[..., 0] + 1, states[..., 1]
        shown = xp.floor(dice.unit(throw) * CHOICES)
        shifted = (shown + 1) % 3
        rewards = (actions == xp.stack((shifted, shown, shifted), -1)) * 1.0
        over = step >= LENGTH
        return Transition(xp.stack((step, dice.roll(throw)), -1), rewards, xp.stack((over, over, over), -1))

    def observe(self, states: AnyArray, p: Params, xp: Namespace) -> AnyArray:
        shown = one_hot(xp.floor(dice.unit(states[..., 1]) * CHOICES), CHOICES, xp)
        role = xp.zeros_like(states[..., :1])
        parts = [xp.concatenate((shown, role + more), -1) for more in (1.0, 0.0, 1.0)]
        return xp.stack(parts, -2)


class Luck:
    """Two agents are paid 1 for repeating the choice that both are shown, and `luck` on top, or as much less: which of
    the two is drawn for each episode, and neither that nor the step is shown but in the entry `state`. State [step,
    dice, sign].
    """

    id = "toys/Luck-v0"
    state_size = 3
    noise_size = 2
    limit: int | None = None
    agents = 2
    params: Mapping[str, float] = {"luck": 3.0}

    def __init__(self, shows_state: bool = True) -> None:
        numbers = ("numbers", Box((CHOICES,), "float32", (0.0,), (1.0,)))
        state = ("state", Box((2,), "float32", (-1.0,), (1.0,)))
        self.spaces = Spaces(Dict((numbers, state) if shows_state else (numbers,)), Discrete(CHOICES))

    def initial(self, noise: AnyArray, p: Params, xp: Namespace) -> AnyArray:
        throw = dice.first(noise[..., :1], xp)
        sign = xp.where(noise[..., 1:] < 0.5, -1.0, 1.0)
        return xp.concatenate((xp.zeros_like(throw), throw, sign), -1)

    def dynamics(self, states: AnyArray, actions: AnyArray, p: Params, xp: Namespace) -> Transition[AnyArray]:
        step, throw, sign = states[..., 0] + 1, states[..., 1], states[..., 2]
        right = (actions == xp.floor(dice.unit(throw) * CHOICES)[..., None]) * 1.0
        over = step >= LENGTH
        following = xp.stack((step, dice.roll(throw), sign), -1)
        return Transition(following, right + (sign * p["luck"])[..., None], xp.stack((over, over), -1))

    def observe(self, states: AnyArray, p: Params, xp: Namespace) -> dict[str, AnyArray]:
        numbers = one_hot(xp.floor(dice.unit(states[..., 1]) * CHOICES), CHOICES, xp)
        whole = xp.stack((states[..., 0] / LENGTH, states[..., 2]), -1)
        entries = {"numbers": xp.stack((numbers, numbers), -2), "state": xp.stack((whole, whole), -2)}
        return {name: entries[name] for name, _ in self.spaces.observation.items()}


for world in (Slider, MaskedWorld, TwoTurns, ThreeAgents, Roles, Luck):
    WORLDS.register(world.id, world)
