"""How much memory this process may use: that of the machine, or of its container where that is less.

A container sees the memory of its whole host everywhere but in its control group, and is killed when it takes more than
the group may have. A limit of any group further up counts as well.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath

_GROUPS = Path("/proc/self/cgroup")
_MOUNT = Path("/sys/fs/cgroup")


def usable_ram(groups: Path = _GROUPS, mount: Path = _MOUNT) -> int:
    """Bytes."""
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min([physical, *_limits(groups, mount)])


def _limits(groups: Path, mount: Path) -> Iterator[int]:
    """Limits of this process's groups and all above them. Inside a container the mount often begins at the container's
    own group while the name is the host's: the folders in between are then not there, and the mount itself has it."""
    lines: list[str] = []
    with suppress(OSError):
        lines = groups.read_text(errors="replace").splitlines()
    for line in lines:
        _, controllers, name = line.split(":", 2)
        if not controllers:
            folder, file = mount, "memory.max"  # version 2
        elif "memory" in controllers.split(","):
            folder, file = mount / "memory", "memory.limit_in_bytes"  # version 1, where no limit is a huge number
        else:
            continue
        group = PurePosixPath(name.lstrip("/"))
        for part in (group, *group.parents):
            with suppress(OSError, ValueError):  # not there, or the word `max`
                yield int((folder / part / file).read_text())
