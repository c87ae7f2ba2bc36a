"""The wheel a user installs: typed, with every ready experiment inside, nothing that is not ours, and with the same
requirements that the checkout has."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from rlstudio.core.host import installation
from rlstudio.core.host.installation import DISTRIBUTION, requirements
from support.pages import ROOT
from support.pip_offline import EXTRAS


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "NOTICE.md"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(source)]
    subprocess.run(build, check=True, capture_output=True, text=True)
    (made,) = folder.glob(f"{DISTRIBUTION}-*.whl")
    return made


def test_the_wheel_holds_the_package_and_its_configs(wheel: Path) -> None:
    inside = set(zipfile.ZipFile(wheel).namelist())
    assert "rlstudio/py.typed" in inside
    for path in (ROOT / "src/rlstudio").rglob("*"):
        if path.suffix in (".py", ".yaml"):
            assert f"rlstudio/{path.relative_to(ROOT / 'src/rlstudio').as_posix()}" in inside
    tops = {name.split("/")[0] for name in inside}
    assert tops == {"rlstudio", next(name for name in tops if name.endswith(".dist-info"))}


def test_hints_of_the_wheel_are_those_of_the_checkout(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one reads the metadata that was built, the other pyproject.toml."""
    of_checkout = {extra: sorted(map(str, requirements(extra))) for extra in ("", *EXTRAS)}
    assert of_checkout["box2d"] == ["Box2D>=2.3.10,<3"]
    zipfile.ZipFile(wheel).extractall(tmp_path)
    monkeypatch.setattr(installation, "ROOT", tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    of_wheel = {extra: sorted(map(str, requirements(extra))) for extra in ("", *EXTRAS)}
    assert of_wheel.pop("envs") == [f"{DISTRIBUTION}[atari,box2d,minigrid,mujoco]"]
    assert of_checkout.pop("envs") == [f"{DISTRIBUTION}[box2d,mujoco,minigrid,atari]"]
    assert of_wheel == of_checkout
