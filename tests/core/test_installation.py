"""What to type when a package is missing: our own requirements, wherever they are read, and never RLStudio itself."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from rlstudio.core.host import installation
from rlstudio.core.host.installation import COVERED_BY, DISTRIBUTION, REINSTALL, remedy, requirements

METADATA = f"""\
Metadata-Version: 2.4
Name: {DISTRIBUTION}
Version: 0.1.0
Requires-Dist: torch<3,>=2.10
Provides-Extra: box2d
Requires-Dist: No-Such-Box2D<3,>=2.3.10; extra == "box2d"
Provides-Extra: pictures
Requires-Dist: numpy>=2; extra == "pictures"
Requires-Dist: no-such-pictures[fast]!=4.1,<5,>=4 ; extra == "pictures"
Provides-Extra: old
Requires-Dist: no-such-thing (<2,>=1) ; extra == 'old'
"""


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """RLStudio as pip installs it from a wheel: metadata, and no checkout around the code."""
    folder = tmp_path / f"{DISTRIBUTION}-0.1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(METADATA)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(installation, "ROOT", tmp_path)


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout whose .venv runs this process, and nothing is installed in it yet."""
    root = tmp_path / "a checkout"
    (root / ".venv").mkdir(parents=True)
    for name in ("pyproject.toml", "Makefile", "bootstrap.sh"):
        (root / name).write_bytes((installation.ROOT / name).read_bytes())
    monkeypatch.setattr(installation, "ROOT", root)
    monkeypatch.setattr(sys, "prefix", str(root / ".venv"))
    monkeypatch.chdir(root)
    return root


@pytest.mark.usefixtures("wheel")
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("box2d",), 'run `pip install "No-Such-Box2D>=2.3.10,<3"`'),
        (("pictures",), 'run `pip install "no-such-pictures[fast]!=4.1,>=4,<5"`'),
        (("pictures", "numpy"), 'run `pip install "numpy>=2"`'),
        (("old",), 'run `pip install "no-such-thing>=1,<2"`'),
        (("", "torch"), 'run `pip install "torch>=2.10,<3"`'),
        (("unknown",), REINSTALL),
    ],
)
def test_a_wheel_names_what_is_missing_of_its_own_metadata(arguments: tuple[str, ...], text: str) -> None:
    """Lower bounds first; what is there already is left out, unless it does not import."""
    assert remedy(*arguments) == text


def test_without_metadata_it_names_no_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "ROOT", tmp_path)
    monkeypatch.setattr(installation, "DISTRIBUTION", "no-such-distribution-of-ours")
    assert remedy("box2d") == REINSTALL


@pytest.mark.parametrize(
    ("extra", "target"), [("box2d", "setup-envs"), ("atari", "setup-envs"), ("sweep", "setup-dev"), ("", "setup")]
)
def test_a_checkout_says_its_own_target(
    extra: str, target: str, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert remedy(extra) == f"run `make {target}`"
    monkeypatch.chdir(checkout.parent)
    assert remedy(extra) == f"run `make -C '{checkout}' {target}`"
    profile = COVERED_BY[target][-1]
    (checkout / f".venv/.ready-{profile}-0123").touch()  # the target would do nothing
    assert remedy(extra) == "run `pip install " + " ".join(f'"{each}"' for each in requirements(extra)) + "`"


def test_code_of_a_checkout_in_another_environment_needs_pip(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", str(checkout.parent))
    assert remedy("minigrid") == 'run `pip install "minigrid>=3.0,<4"`'
