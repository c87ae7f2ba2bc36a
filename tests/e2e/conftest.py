"""The package of examples/my_parts, installed beside RLStudio."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.plugins import MY_PARTS, pip_installed
from support.rlctl_process import end_all


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where pip installed the package."""
    return pip_installed(MY_PARTS, tmp_path_factory.mktemp("package"))


@pytest.fixture(scope="session")
def shell(site: Path) -> dict[str, str]:
    """The variables of a shell in which the package is installed."""
    paths = [str(site), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


@pytest.fixture
def installed(shell: dict[str, str]) -> Iterator[dict[str, str]]:
    """The same; processes that a failed test left running end with it."""
    yield shell
    end_all()
