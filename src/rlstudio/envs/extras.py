"""Environments that come with an extra of the installation: which ids they are, and how they are made known.

An extra is imported when one of its ids is asked for and never before. The packages are also quietened here: ALE greets
on every start, and MuJoCo writes its warnings into a file of the working directory.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from types import ModuleType

from rlstudio.core.errors import UserError
from rlstudio.core.host.extras import Extra


def _quiet_ale(ale_py: ModuleType) -> None:
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)


def _quiet_mujoco(mujoco: ModuleType) -> None:
    mujoco.set_mju_user_warning(_warn)


def _warn(text: str) -> None:
    """Deprecated parts of a model file concern its author and are not reported; an unstable simulation is."""
    if "deprecated" not in text:
        warnings.warn(f"MuJoCo: {text}", RuntimeWarning, stacklevel=2)


def _nothing(module: ModuleType) -> None:
    pass


@dataclass(frozen=True)
class EnvExtra(Extra):
    ids: str
    """Pattern of the beginning of its environment ids."""

    example_ids: str
    """The same in words, for messages."""

    registers: bool = False
    """Its ids are registered when it is imported; Gymnasium itself registers those of the others."""

    prepare: Callable[[ModuleType], None] = _nothing

    def load(self, field: str, wanted: str) -> ModuleType:
        """Import the module, which registers its ids, and silence what it prints."""
        module = super().load(field, wanted)
        self.prepare(module)
        return module


BOX2D = EnvExtra("box2d", "Box2D", "LunarLander|BipedalWalker|CarRacing", "LunarLander, BipedalWalker, CarRacing")
MUJOCO = EnvExtra(
    "mujoco",
    "mujoco",
    "(Ant|HalfCheetah|Hopper|Humanoid|HumanoidStandup|InvertedDoublePendulum|InvertedPendulum|Pusher|Reacher|Swimmer"
    "|Walker2d)-v",
    "Ant, HalfCheetah, Hopper, Humanoid, ...",
    prepare=_quiet_mujoco,
)
MINIGRID = EnvExtra("minigrid", "minigrid", "MiniGrid-|BabyAI-", "MiniGrid-*, BabyAI-*", registers=True)
ATARI = EnvExtra("atari", "ale_py", r"ALE/|\w+NoFrameskip-v", "ALE/*", registers=True, prepare=_quiet_ale)

PETTINGZOO = EnvExtra("marl", "pettingzoo", "pettingzoo/", "pettingzoo/*")
MPE2 = EnvExtra("marl", "mpe2", "mpe2/", "mpe2/*")

EXTRAS = (BOX2D, MUJOCO, MINIGRID, ATARI, PETTINGZOO, MPE2)

OURS = {"rlstudio/AxelrodIPD-v0": ("rlstudio.envs.worlds.ipd.axelrod_env:AxelrodIPD", 200)}
"""Plain envs of ours that need a package: where they lie, and their time limit."""

RENDERER = "MUJOCO_GL"
NO_RENDERER = "disable"
EGL = "libEGL.so.1"


def extra_of(id: str, package: str = "") -> EnvExtra | None:
    """The extra that an id belongs to, installed or not: by the id's beginning or the `package` that registered it."""
    return next((extra for extra in EXTRAS if re.match(extra.ids, id) or package == extra.module), None)


def prepare(id: str) -> None:
    """Make the id known and its package ready, or say in one line what to install."""
    _set_defaults()
    _register_ours()
    extra = extra_of(id)
    if extra is not None:
        extra.load("env.id", id)


def register_installed() -> None:
    """Make the ids of every installed extra known: for lists and for suggestions. One that is broken has none."""
    _set_defaults()
    _register_ours()
    for extra in EXTRAS:
        if extra.registers and extra.installed:
            with suppress(UserError):
                extra.load("env.id", extra.example_ids)


def require_renderer(id: str) -> None:
    """Refuse to draw what can only be stepped here."""
    if extra_of(id) is MUJOCO and os.environ.get(RENDERER) == NO_RENDERER:
        raise UserError(
            f"env.id: {id} cannot be filmed here, MuJoCo has nothing to draw with: install {EGL} (Debian: libegl1), or"
            f" OSMesa and set {RENDERER}=osmesa"
        )


def _register_ours() -> None:
    """Plain envs of ours, whose package is imported when one is made."""
    import gymnasium

    for id, (entry_point, limit) in OURS.items():
        if id not in gymnasium.registry:
            gymnasium.register(id, entry_point, max_episode_steps=limit)


def _set_defaults() -> None:
    """What packages read when they are imported: pygame greets on standard output, and MuJoCo picks its renderer (the
    usual one needs a display, and may abort without)."""
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    if RENDERER in os.environ or sys.platform != "linux" or not MUJOCO.installed:
        return
    if not os.environ.get("DISPLAY") and not os.environ.get("WAYLAND_DISPLAY"):
        os.environ[RENDERER] = _renderer_without_display()


def _renderer_without_display() -> str:
    """MuJoCo cannot even be imported for a renderer whose library is not there."""
    try:
        ctypes.CDLL(EGL)
    except OSError:
        return NO_RENDERER
    return "egl"
