"""The pinned versions, the notice and the setup script agree with pyproject.toml."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from importlib.metadata import PackageNotFoundError, metadata, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from rlstudio.core.host.installation import DISTRIBUTION

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PINS = {
    canonicalize_name(name): pinned
    for name, pinned in re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
}

EXTRAS = PROJECT["optional-dependencies"]
FAMILIES = ("box2d", "mujoco", "minigrid", "atari")
PINNED = [
    *PROJECT["dependencies"],
    *(
        text
        for name in (
            *FAMILIES,
            "envpool",
            "marl",
            "postgres",
            "sweep",
            "export",
            "minari",
            "parquet",
            "serve",
            "docs",
            "dev",
        )
        for text in EXTRAS[name]
    ),
]


def test_the_code_knows_the_name_of_its_distribution() -> None:
    assert PROJECT["name"] == DISTRIBUTION


def test_envs_is_every_family_but_the_large_one() -> None:
    assert EXTRAS["envs"] == [f"{DISTRIBUTION}[{','.join(FAMILIES)}]"]


def test_the_code_names_the_extras_as_the_project_does() -> None:
    from rlstudio.control.sweep.samplers import CMAES, OPTUNA
    from rlstudio.data.datasets.minari_files import MINARI
    from rlstudio.delivery.graphs import ONNX, ONNXRUNTIME, ONNXSCRIPT
    from rlstudio.envs.envpool.envpool_env import ENVPOOL
    from rlstudio.envs.extras import EXTRAS as KNOWN
    from rlstudio.experiment.metrics.tables import PYARROW
    from rlstudio.server.http.extras import FASTAPI, PROMETHEUS, UVICORN

    assert tuple(extra.name for extra in KNOWN) == (*FAMILIES, "marl", "marl")
    for extra in (
        *KNOWN,
        ENVPOOL,
        MINARI,
        PYARROW,
        OPTUNA,
        CMAES,
        ONNX,
        ONNXSCRIPT,
        ONNXRUNTIME,
        FASTAPI,
        UVICORN,
        PROMETHEUS,
    ):
        assert extra.name in EXTRAS


@pytest.mark.parametrize("text", PINNED)
def test_each_dependency_is_pinned_inside_its_range_and_installed(text: str) -> None:
    requirement = Requirement(text)
    pinned = PINS[canonicalize_name(requirement.name)]
    assert requirement.specifier.contains(pinned)
    assert version(requirement.name).partition("+")[0] == pinned


@pytest.mark.parametrize("name", sorted(PINS))
def test_each_pin_takes_the_first_release_of_the_oldest_python(name: str) -> None:
    try:
        needed = metadata(name).get_all("Requires-Python", [""])
    except PackageNotFoundError:  # of an extra that the checks do not install
        return
    oldest = PROJECT["requires-python"].removeprefix(">=") + ".0"
    assert SpecifierSet(needed[0]).contains(oldest)


def test_the_notice_lists_exactly_what_is_pinned() -> None:
    rows = re.findall(r"^\| ([\w.-]+) \| (\S+) \| (.+) \|$", (ROOT / "NOTICE.md").read_text(), re.MULTILINE)
    listed = {canonicalize_name(name): pinned for name, pinned, _ in rows if pinned != "version"}
    assert listed == PINS
    assert all(licence.strip() not in ("", "?") for _, _, licence in rows)


@pytest.mark.parametrize("name", ["bootstrap.sh", "Makefile", "constraints.txt", "pyproject.toml", ".ci/run"])
def test_no_address_is_written_into_the_setup(name: str) -> None:
    assert "://" not in (ROOT / name).read_text()


def bootstrap(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    for name in ("bootstrap.sh", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, folder)
    environment = {**os.environ, **variables}
    return subprocess.run(
        [str(folder / "bootstrap.sh"), *arguments], env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.real_process
@pytest.mark.parametrize(
    ("arguments", "variables", "said"),
    [
        ((), {"PYTHON": "false"}, "PYTHON=false is not a Python 3.11"),
        ((), {"PYTHON": "no-such-python"}, "PYTHON=no-such-python is not a Python 3.11"),
        (("everything",), {}, "unknown profile 'everything'"),
    ],
)
def test_setup_says_in_one_line_what_is_missing(
    tmp_path: Path, arguments: tuple[str, ...], variables: dict[str, str], said: str
) -> None:
    result = bootstrap(tmp_path, *arguments, **variables)
    assert result.returncode == 1
    assert said in result.stderr
    assert result.stderr.count("\n") == 1
    assert not (tmp_path / ".venv").exists()
