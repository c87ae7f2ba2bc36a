"""The plain env that judges and films what is trained elsewhere, by EnvPool or a vector of the user's."""

from __future__ import annotations

from rlstudio.core.errors import Incompatible
from rlstudio.core.spaces import Box, Dict, Discrete, Space, Spaces, describe
from rlstudio.envs.gym.recipe import Recipe
from rlstudio.envs.gym.spaces import convert_spaces


def plain_spaces(recipe: Recipe) -> Spaces:
    """Those of the plain env."""
    with recipe.opened() as env:
        return convert_spaces(env, recipe.cfg.id, recipe.cfg.infos)


def check_spaces(plain: Spaces, trained: Spaces, trained_in: str) -> None:
    """What is trained in `trained_in` must be able to act in the plain env."""
    if _layout(plain.observation) != _layout(trained.observation) or plain.action != trained.action:
        expected, offered = (f"{describe(of.observation)}, {describe(of.action)}" for of in (plain, trained))
        raise Incompatible(
            f"env.vectorization: {trained_in} has {offered}, but the plain env that evaluation uses has {expected};"
            " use sync or async"
        )


def _layout(space: Space) -> object:
    """A space without its bounds."""
    match space:
        case Dict():
            return {name: _layout(entry) for name, entry in space.items()}
        case Discrete():
            return space.n
        case Box():
            return space.shape, space.dtype
    return space
