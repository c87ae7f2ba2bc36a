"""A virtual environment for each peer under `.bench/<peer>`, made once and reused while its pins stay the same.

Peers pin different versions of the same packages, so none of them may enter our own environment.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from rlstudio.core.version import __version__

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".bench"
STAMP = ".ready.json"
TORCH = "torch==2.13.0"
GYMNASIUM = "gymnasium==1.4.0"

WORLDS = ("mujoco==4.0.0", "imageio==2.38.1", "Box2D==2.3.10", "minigrid==3.2.0", "pygame-ce==2.5.8", "packaging==26.3")
"""What Gymnasium's MuJoCo, Box2D and toy text worlds and MiniGrid need: the versions that RLStudio is tested with."""

PINS: dict[str, tuple[str, ...]] = {
    "sb3": ("stable-baselines3==2.9.2", "sb3-contrib==2.9.2", *WORLDS),
    "skrl": ("skrl[torch]==2.1.1",),
    "tianshou": ("tianshou==2.0.1",),
    "torchrl": ("torchrl==0.14.1",),
    "pytorch_mppi": ("pytorch-mppi==0.9.1",),
    # What its scripts import; they are written for the environments of Gymnasium 0.29, which NumPy 2 breaks.
    "cleanrl": ("gymnasium==0.29.1", "numpy==1.26.4", "tyro==1.0.16", "tensorboard==2.21.0"),
    "rllib": ("ray[rllib]==2.60.0", "gymnasium==1.2.2"),
    # With the environments of many agents that RLStudio is tested with. AgileRL 2.58 asks for PettingZoo below 1.27.
    "rllib_agents": (
        "ray[rllib]==2.60.0",
        "gymnasium==1.2.2",
        "pettingzoo==1.27.0",
        "mpe2==1.1.1",
        "pygame-ce==2.5.8",
    ),
}
"""What is installed beside torch and Gymnasium, which are the same for everybody but RLlib and CleanRL, which need
another Gymnasium."""


ASK_VERSIONS = """
import json, sys
from importlib.metadata import version
print(json.dumps({name: version(name) for name in sys.argv[1:]}))
"""


class CannotInstall(Exception):
    """The peer cannot be had here; the table says so and goes on without it."""


@dataclass(frozen=True)
class Venv:
    """An interpreter and the versions behind it."""

    python: Path
    versions: dict[str, str]


def ours(*more: str) -> Venv:
    """The environment this process runs in, with the versions of `more` packages."""
    python = Path(sys.executable)
    return Venv(python, {"rlstudio": __version__, **_versions(python, ("torch", "gymnasium", "numpy", *more))})


def prepare(peer: str) -> Venv:
    """The peer's environment, installed now unless its stamp says that nothing changed."""
    folder = FOLDER / peer
    python = folder / "bin" / "python"
    pins = pins_of(peer)
    stamp = folder / STAMP
    if not (stamp.exists() and json.loads(stamp.read_text())["pins"] == pins):
        print(f"{peer}: installing {' '.join(pins)} into .bench/{peer} (once)", file=sys.stderr, flush=True)
        _call([sys.executable, "-m", "venv", "--clear", str(folder)])
        _install_torch(python)
        # One request with torch in it: the resolver may not replace the build that is already there.
        _call([*_pip(python), *pins])
        stamp.write_text(json.dumps({"pins": pins}))
    names = [pin.split("==")[0].split("[")[0] for pin in pins]
    return Venv(python, _versions(python, (*names, "numpy")))


def pins_of(peer: str) -> list[str]:
    own = PINS[peer]
    return [TORCH, *(() if any(pin.startswith("gymnasium==") for pin in own) else (GYMNASIUM,)), *own]


def _install_torch(python: Path) -> None:
    """The CPU build where an index has it: the default one for Linux is twenty times as large."""
    if sys.platform == "linux":
        try:
            return _call([*_pip(python), f"{TORCH}+cpu"])
        except CannotInstall:
            pass
    return _call([*_pip(python), TORCH])


def _pip(python: Path) -> list[str]:
    return [str(python), "-m", "pip", "--disable-pip-version-check", "-qq", "install"]


def _call(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines() or [f"exit status {done.returncode}"]
        raise CannotInstall(next((line for line in lines if line.startswith("ERROR")), lines[-1]))


def _versions(python: Path, names: tuple[str, ...]) -> dict[str, str]:
    done = subprocess.run([str(python), "-c", ASK_VERSIONS, *names], capture_output=True, text=True, check=True)
    versions: dict[str, str] = json.loads(done.stdout)
    return versions
