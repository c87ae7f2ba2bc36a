"""The wheel as `make dist` builds it, and an environment that has RLStudio from it alone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from dataclasses import dataclass
from pathlib import Path

from rlstudio.core.host.installation import DISTRIBUTION
from support.deadlines import PATIENCE
from support.pages import ROOT
from support.pip_offline import offline

STATIC = ROOT / "src/rlstudio/server/page/static"


def build_distributions(folder: Path) -> Path:
    """The wheel, made from the source distribution beside it, as `make dist` does; the checkout is not touched."""
    source = folder / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "NOTICE.md"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(source)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    (made,) = folder.glob(f"{DISTRIBUTION}-*.whl")
    return made


@dataclass(frozen=True)
class Installed:
    """An environment with the wheel, and a folder of one's own to work in. No file of the checkout is on its path; the
    packages that RLStudio needs are those of the environment that runs the tests."""

    python: Path
    place: Path
    variables: dict[str, str]

    def run(self, line: str) -> subprocess.CompletedProcess[str]:
        """One line, typed into a shell."""
        return subprocess.run(
            ["bash", "-c", line],
            cwd=self.place,
            env=self.variables,
            capture_output=True,
            text=True,
            timeout=10 * PATIENCE,
            check=False,
        )

    def start(self, line: str) -> subprocess.Popen[bytes]:
        """One line whose program goes on; a session of its own, so that it ends with all that it started."""
        return subprocess.Popen(
            ["bash", "-c", f"exec {line}"],
            cwd=self.place,
            env=self.variables,
            stdout=(self.place / "started.txt").open("wb"),
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def install(wheel: Path, folder: Path, *, shares: bool = True) -> Installed:
    """`shares`: with the packages of this environment; otherwise it has nothing but the wheel, which needs them."""
    place, home = folder / "place", folder / "home"
    place.mkdir(parents=True)
    home.mkdir()
    venv.create(folder / "rl", with_pip=not shares, symlinks=True)
    python = folder / "rl/bin/python"
    variables = offline(home)
    variables |= {"PATH": os.pathsep.join([str(python.parent), variables["PATH"]]), "VIRTUAL_ENV": str(folder / "rl")}
    variables |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    variables.pop("PYTHONPATH", None)
    if shares:
        (site,) = (folder / "rl/lib").glob("python*/site-packages")
        (site / "shared.pth").write_text(sysconfig.get_path("purelib") + "\n")
        command = [sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check"]
        # Not compiled: of 800 modules the half is never imported there.
        command += ["install", "--no-deps", "--no-index", "--no-compile", "--force-reinstall", str(wheel)]
        subprocess.run(command, check=True, capture_output=True, text=True)
    shutil.copy(wheel, place)
    return Installed(python, place, variables)
