"""Unfinished entries that nobody is building any more are removed, and nothing else is."""

import os
import time
from pathlib import Path

import pytest

from rlstudio.storage.abandoned import ABANDONED_SECONDS, sweep_abandoned
from rlstudio.storage.folder import Folder, temporary


@pytest.mark.parametrize(("owner", "left"), [("", ["kept"]), ("bundle", [".tmp-other-1", "kept"])])
def test_only_old_entries_of_the_owner_go(tmp_path: Path, owner: str, left: list[str]) -> None:
    old = time.time() - ABANDONED_SECONDS - 60
    for name in (temporary("bundle"), ".tmp-other-1", "kept"):
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (old, old))
    young = temporary("bundle")
    (tmp_path / young).mkdir()

    sweep_abandoned(Folder(tmp_path), owner)

    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([young, *left])
