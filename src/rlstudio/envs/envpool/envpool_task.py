"""Which of EnvPool's tasks is the env that a config describes, and with which options.

EnvPool has no wrappers; for Atari it does inside what AtariPreprocessing and FrameStackObservation do outside, and that
pair is translated. Anything else is refused: training would see another env than evaluation.
"""

from __future__ import annotations

from dataclasses import dataclass

from rlstudio.core.contracts import State
from rlstudio.core.errors import ConfigError
from rlstudio.envs.gym.recipe import Recipe

ATARI_WRAPPERS = ["AtariPreprocessing", "FrameStackObservation"]
ATARI_OPTIONS = {  # of AtariPreprocessing, as EnvPool calls them; `screen_size` is two options there
    "noop_max": "noop_max",
    "frame_skip": "frame_skip",
    "grayscale_obs": "gray_scale",
}
ALE_OPTIONS = ("repeat_action_probability", "full_action_space", "mode", "difficulty")


@dataclass(frozen=True)
class Task:
    id: str
    options: State
    limit: int | None
    """Steps after which an episode is truncated; None leaves that to EnvPool."""


def pool_task(recipe: Recipe) -> Task:
    cfg = recipe.cfg
    if cfg.id.startswith("ALE/"):
        return _atari(recipe)
    if cfg.wrappers:
        raise ConfigError("env.vectorization: envpool takes no env.wrappers, use sync or async")
    return Task(cfg.id, dict(cfg.kwargs), recipe.limit)


def _atari(recipe: Recipe) -> Task:
    cfg, calls = recipe.cfg, dict(recipe.cfg.wrapper_calls())
    if list(calls) != ATARI_WRAPPERS or cfg.max_episode_steps is not None:
        raise ConfigError(
            f"env.wrappers: envpool plays Atari with {' and '.join(ATARI_WRAPPERS)}, no more and no less, and without"
            " env.max_episode_steps; set them so or use sync or async"
        )
    frames, stack = calls["AtariPreprocessing"], calls["FrameStackObservation"]
    unknown = [name for name in frames if name not in (*ATARI_OPTIONS, "screen_size")]
    unknown += [name for name in stack if name != "stack_size"]
    unknown += [name for name in cfg.kwargs if name not in (*ALE_OPTIONS, "frameskip")]
    if unknown:
        raise ConfigError(f"env.vectorization: envpool has no {unknown[0]} for Atari, use sync or async")
    assert recipe.spec is not None
    ale = {**recipe.spec.kwargs, **cfg.kwargs}
    side = frames.get("screen_size", 84)
    width, height = side if isinstance(side, list | tuple) else (side, side)
    options = {theirs: frames[ours] for ours, theirs in ATARI_OPTIONS.items() if ours in frames}
    options |= {name: ale[name] for name in ALE_OPTIONS if ale.get(name) is not None}
    # The wrapper presses no button to begin.
    options |= {"stack_num": stack["stack_size"], "img_width": width, "img_height": height, "use_fire_reset": False}
    return Task(cfg.id.removeprefix("ALE/"), options, None)
