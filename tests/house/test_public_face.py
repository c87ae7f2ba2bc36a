"""What programs outside may rely on: a few names, light to import, and bundles that were shipped before."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import rlstudio
from rlstudio.delivery.bundle import open_bundle
from rlstudio.experiment.run.load import load_agent
from support.deadlines import PATIENCE

HEAVY = {"torch", "numpy", "gymnasium", "pydantic", "sqlalchemy", "yaml"}
SHIPPED = Path(__file__).parents[1] / "golden" / "bundle-v1"


def run(*command: str) -> str:
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, timeout=PATIENCE, check=False, cwd=SHIPPED.parent
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_package_offers_these_names_and_loads_them_when_asked() -> None:
    assert set(rlstudio.__all__) == {"__version__", "load_agent", "log", "open_bundle", "orchestrator"}
    assert rlstudio.open_bundle is open_bundle
    assert rlstudio.load_agent is load_agent
    with pytest.raises(AttributeError, match="module 'rlstudio' has no attribute 'open_bundel'"):
        _ = rlstudio.open_bundel


@pytest.mark.real_process
def test_every_name_is_there_after_importing_the_package_alone() -> None:
    names = "rlstudio.orchestrator.run, rlstudio.load_agent, rlstudio.open_bundle"  # the module first: nothing helps it
    code = f"import rlstudio; print(*[function.__name__ for function in ({names})])"
    assert run("-c", code).split() == ["run", "load_agent", "open_bundle"]


@pytest.mark.real_process
def test_importing_the_package_is_light() -> None:
    out = run("-c", "import sys, rlstudio; print(*{name.partition('.')[0] for name in sys.modules})")
    assert not HEAVY & set(out.split())


@pytest.mark.real_process
def test_help_opens_no_store_and_imports_nothing_that_computes() -> None:
    said_help = "import sys; from rlstudio.cli.app import main; sys.argv = ['rlctl', '--help']; main()"
    code = f"import atexit, sys; atexit.register(lambda: print('imported', *sys.modules)); {said_help}"
    out, _, imported = run("-c", code).partition("imported ")
    assert "Usage: rlctl" in out
    assert not HEAVY & {name.partition(".")[0] for name in imported.split()}


def test_a_bundle_that_was_shipped_opens_and_acts() -> None:
    episode = rlstudio.open_bundle(SHIPPED).policy().episode()
    assert episode.act(np.zeros(4, np.float32)) in (0, 1)


@pytest.mark.real_process
def test_the_example_inside_a_shipped_bundle_still_runs() -> None:
    """It imports `open_bundle` from where it was when the bundle was made."""
    assert "from rlstudio.experiment.bundle import open_bundle" in (SHIPPED / "example.py").read_text()
    actions = run("-B", str(SHIPPED / "example.py")).splitlines()
    assert len(actions) == 3
    assert all(line in ("[0, 0]", "[1, 1]") for line in actions)
