"""Kill a promotion, and a rollback, at every single change of the disk: old or new in production, never neither.

The changes are those of the blobs and those of SQLite itself: journal, pages and the unlink that commits.
"""

from __future__ import annotations

import mmap
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rlstudio.control.registry.promotion import PromotionConfig
from rlstudio.control.registry.records import Stage
from rlstudio.control.registry.releases import Releases
from rlstudio.control.workspace import Workspace
from rlstudio.core.errors import StorageError
from rlstudio.storage import failpoint
from support.deadlines import SLOWNESS
from support.histories import stages_after
from support.processes import has_ended, in_child, running
from support.registry_world import write_policy
from support.rlctl_process import wait_for
from support.sqlite_faults import sqlite_passes_failpoints

pytestmark = [
    pytest.mark.timeout(900 * SLOWNESS),  # each visits up to a hundred points
]

QUICK = PromotionConfig(budget=20, margin=-100.0)
EVERY = pytest.mark.parametrize("every", [11, pytest.param(1, marks=pytest.mark.slow)])
"""The quick suite visits every eleventh change of the disk."""


@pytest.fixture(scope="module")
def counted() -> Iterator[None]:
    with sqlite_passes_failpoints():
        yield


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """pole:1 was in production, pole:2 is, pole:3 is in staging; a bundle beside them is not registered yet."""
    root = tmp_path_factory.mktemp("kill")
    releases = Releases(Workspace(root / "runs"))
    for number in (1, 2, 3):
        write_policy(root / f"bundle-{number}", skill=number)
        version = releases.register_bundle("pole", root / f"bundle-{number}")
        stage = Stage.STAGING if number == 3 else Stage.PRODUCTION
        releases.promote(version, stage, QUICK, force="to begin with")
    write_policy(root / "new", skill=4)
    releases.registry.database.close()
    return root


def promote(root: Path) -> None:
    releases = Releases(Workspace(root / "runs"))
    releases.promote(releases.version("pole:staging"), Stage.PRODUCTION, QUICK)


def promote_new(root: Path) -> None:
    releases = Releases(Workspace(root / "runs"))
    releases.promote(releases.version(str(root / "new"), "pole"), Stage.PRODUCTION, QUICK)


def rollback(root: Path) -> None:
    Releases(Workspace(root / "runs")).rollback("pole", reason="it limps")


def production(root: Path) -> int:
    """The one version in production, after making sure that everything adds up and is whole."""
    releases = Releases(Workspace(root / "runs"))
    known = releases.versions("pole")
    table = {(entry.model, entry.version): entry.stage for entry in known}
    assert stages_after(releases.registry.history()) == table
    assert sorted(entry.version for entry in known) == list(range(1, len(known) + 1))
    for entry in known:
        assert releases.bundle(entry).sha256 == entry.digest
    (live,) = [entry for entry in known if entry.stage == Stage.PRODUCTION]
    releases.registry.database.close()
    return live.version


def each_change(*kinds: str, slow: tuple[str, ...]) -> pytest.MarkDecorator:
    """Each change of what is in production with each kind of fault; the quick suite has one of each."""
    changes = {"promote": (promote, 3), "bundle": (promote_new, 4), "rollback": (rollback, 1)}
    cases = [
        pytest.param(change, after, kind, id=f"{name}-{kind}", marks=[pytest.mark.slow] * (f"{name}-{kind}" in slow))
        for name, (change, after) in changes.items()
        for kind in kinds
    ]
    return pytest.mark.parametrize(("change", "after", "kind"), cases)


@pytest.mark.real_process
@pytest.mark.usefixtures("counted")
@each_change("kill", "torn", slow=("promote-torn", "bundle-torn", "rollback-kill"))
@EVERY
def test_every_kill_point(
    original: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[Path], None],
    after: int,
    kind: str,
    every: int,
) -> None:
    point, status, seen = 1 - every, 9, []
    while status == 9:
        point += every
        root = tmp_path / str(point)
        shutil.copytree(original, root)

        def killed(root: Path = root, point: int = point) -> None:
            failpoint.restart()
            monkeypatch.setenv(failpoint.VARIABLE, f"{point}:{kind}")
            change(root)

        status = in_child(killed)
        seen.append(production(root))
        if seen[-1] == 2:
            change(root)  # the same again
            assert production(root) == after
        left = [path.name for path in (root / "runs" / ".rlstudio").rglob(".tmp-*")]
        assert len(left) <= 1
        shutil.rmtree(root)
    print(f"killed at {len(seen)} points of {change.__name__}")
    assert status == 0
    assert point > 12
    done = seen.index(after)
    assert seen == [2] * done + [after] * (len(seen) - done)  # the old one, and from one moment on the new one
    assert done * every > 10


@pytest.mark.real_process
@pytest.mark.usefixtures("counted")
@EVERY
def test_a_reader_elsewhere_finds_exactly_one_at_every_kill_point(
    original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: int
) -> None:
    """One place all the time: promoted and rolled back in turn, each killed at the next change of the disk. A reader in
    another process looks without a pause, and has looked between any two kills."""
    root = tmp_path / "place"
    shutil.copytree(original, root)
    looks = memoryview(mmap.mmap(-1, 8)).cast("q")
    point, ended, killed = 1 - every, set(), {promote_by_force: 0, rollback: 0}
    with running(lambda: look(root, looks)) as reader:
        while ended != set(killed):
            point += every
            for change in killed:
                before = looks[0]
                status = in_child(lambda change=change, point=point: act_until(change, root, point, monkeypatch))
                assert status in (0, 9)
                wait_for(lambda before=before: looks[0] > before or has_ended(reader))
                assert not has_ended(reader), "it found none or two in production"
                killed[change] += status == 9
                ended |= {change} if status == 0 else set()
                if production(root) != AFTER[change]:
                    change(root)
    assert min(killed.values()) * every > 10


def promote_by_force(root: Path) -> None:
    """The staged one the first time, later the one that was rolled back from."""
    releases = Releases(Workspace(root / "runs"))
    releases.promote(releases.version("pole:3"), Stage.PRODUCTION, QUICK, force="again")


AFTER = {promote_by_force: 3, rollback: 2}


def act_until(change: Callable[[Path], None], root: Path, point: int, monkeypatch: pytest.MonkeyPatch) -> None:
    failpoint.restart()
    monkeypatch.setenv(failpoint.VARIABLE, f"{point}:kill")
    change(root)


def look(root: Path, looks: memoryview) -> None:
    """As `rlctl models` and a server of `pole:production` look."""
    while True:
        releases = Releases(Workspace(root / "runs"))
        live = [entry.version for entry in releases.versions("pole") if entry.stage == Stage.PRODUCTION]
        assert len(live) == 1, live
        assert releases.find("pole:production").version in (2, 3)
        looks[0] += 1


@pytest.mark.usefixtures("counted")
@each_change("eio", "enospc", slow=("promote-eio", "promote-enospc", "bundle-eio", "bundle-enospc", "rollback-eio"))
@EVERY
def test_every_refusal_of_the_disk(
    original: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[Path], None],
    after: int,
    kind: str,
    every: int,
) -> None:
    """One line with the place, what was there stays, and the same goes well once there is room."""
    point, done = 1 - every, False
    while not done:
        point += every
        root = tmp_path / str(point)
        shutil.copytree(original, root)
        failpoint.restart()
        monkeypatch.setenv(failpoint.VARIABLE, f"{point}:{kind}")
        message = ""
        try:
            change(root)
            done = failpoint.passed() < point
        except StorageError as error:
            message = str(error)
        monkeypatch.delenv(failpoint.VARIABLE)
        remedies = ("free some space", "check the device", "check that its disk works and has room")
        assert not message or (
            str(root) in message and "\n" not in message and any(part in message for part in remedies)
        ), message
        found = production(root)
        assert found in (2, after)
        if found == 2:
            change(root)
            assert production(root) == after
        shutil.rmtree(root)
    assert point > 12


def test_what_a_killed_process_left_goes_with_the_next_one_an_hour_later(original: Path, tmp_path: Path) -> None:
    shutil.copytree(original, tmp_path / "place")
    blobs = Releases(Workspace(tmp_path / "place" / "runs")).blobs
    old, young = blobs.root / ".tmp-old", blobs.root / ".tmp-young"
    for left in (old, young):
        shutil.copytree(original / "new", left)
    os.utime(old, (0, 0))
    blobs.put(original / "new")
    assert not old.exists()
    assert young.exists()
