"""What holds for every test: one thread, no deadline decided by a clock, no display, signals as in a terminal."""

import functools
import gc
import os
import re
import sys

import pytest
from hypothesis import settings

from rlstudio.control.store import database
from rlstudio.envs.own_modules import IMPORTED
from support.deadlines import TEST_LIMIT
from support.known_once import know_the_commit, know_the_numerics
from support.processes import failure_in_child, signals_as_in_a_terminal
from support.warm_python import cold_starts, warm_starts

# Before anything imports NumPy, torch or pygame.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")

os.environ.setdefault("PYTEST_TIMEOUT", f"{TEST_LIMIT:.0f}")

# Compiled modules are kept: the tests start many processes, and each would compile RLStudio anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

settings.register_profile("rlstudio", deadline=None, derandomize=True)
settings.load_profile("rlstudio")


def pytest_configure(config):
    """GPUs are there for the tests that are asked for by that name (`make test-gpu`). Where torch sees one, the first
    gradient starts threads for it, and no forked child of a test can compute gradients any more."""
    asked = (config.getoption("markexpr"), *config.args)
    if not any(re.search(r"(?<!not )\bgpu\b", text) for text in asked):
        os.environ["CUDA_VISIBLE_DEVICES"] = ""


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """What is imported and collected stays: the garbage collector need not go through it, neither now nor later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: item.get_closest_marker("first") is None)


@pytest.fixture(autouse=True, scope="session")
def _signals():
    """In each process that runs tests, not in the one that only hands them out: its workers inherit from it."""
    with signals_as_in_a_terminal():
        yield


@pytest.fixture(autouse=True)
def _own_modules():
    """A command remembers which modules it imported for the user until its process ends; here that is one test."""
    before = dict(IMPORTED)
    yield
    IMPORTED.clear()
    IMPORTED.update(before)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """A test that is marked `own_process` runs in a forked child; its fixtures are made and ended here."""
    if pyfuncitem.get_closest_marker("own_process") is None:
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    failure = failure_in_child(lambda: pyfuncitem.obj(**arguments))
    if failure is not None:
        pytest.fail(failure, pytrace=False)
    return True


@pytest.fixture(autouse=True, scope="session")
def _instant_sync():
    """A kill does not need the disk, and a power cut is modelled: syncs are counted, the waiting is left out, that of
    the store too (18 ms for each of its transactions). Processes that tests start do wait."""
    set_up = database._set_up_sqlite

    @functools.wraps(set_up)
    def without_syncs(connection, record):
        set_up(connection, record)
        connection.execute("PRAGMA synchronous=OFF")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        patch.setattr(database, "_set_up_sqlite", without_syncs)
        yield


@pytest.fixture(autouse=True, scope="session")
def _warm_starts(_signals):
    know_the_numerics()
    know_the_commit()
    with warm_starts():
        yield


@pytest.fixture(autouse=True)
def _cold_start(request):
    if "cold_start" not in request.keywords:
        yield
        return
    with cold_starts():
        yield


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch):
    """Variables of whoever runs the tests decide nothing."""
    for variable in ("RLSTUDIO_RUNS_DIR", "RLSTUDIO_FAILPOINT", "RLSTUDIO_DEBUG", "PYTHONUNBUFFERED"):
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture
def eight_gigabytes(monkeypatch):
    """What does not fit into memory is decided by the test, not by the machine that runs it."""
    monkeypatch.setattr("rlstudio.experiment.training.refusals.usable_ram", lambda: 8 << 30)
