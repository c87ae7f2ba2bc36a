"""What Ray runs on a node for one rank: it holds the rank's core and GPU, and has the rank's process as a child.

A process below the actor, as for whole runs (decision 0057): Ray's own process has threads, and a priority of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress

from rlstudio.core.host.process import is_stopped

MOST_REPORT = 1 << 16
SET_BY_RAY = ("OMP_NUM_THREADS",)


class RankOnNode:
    def __init__(
        self,
        module: str,
        argument: Mapping[str, object],
        variables: Mapping[str, str],
        path: Sequence[str],
        folder: str,
    ) -> None:
        """`argument`: of the process, without what is of this node; `path` and `folder`: where rank 0 imports from, and
        is."""
        import ray

        here: str = ray.util.get_node_ip_address()  # type: ignore[no-untyped-call]
        theirs, self._lifeline = os.pipe()  # closed with this process, and then the child ends
        self._report, reported = os.pipe()
        given = {**argument, "lifeline": theirs, "report": reported, "host": here}
        inherited = {name: value for name, value in os.environ.items() if name not in SET_BY_RAY}
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", module, json.dumps(given)],
            pass_fds=(theirs, reported),
            env={**inherited, **variables, "PYTHONPATH": os.pathsep.join(path)},
            cwd=folder,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(theirs)
        os.close(reported)

    def ended(self) -> tuple[str, int, bytes]:
        """Once it has: which process it was, its code, and what it failed by."""
        code = self._process.wait()
        return f"process {self._process.pid} on {os.uname().nodename}", code, os.read(self._report, MOST_REPORT)

    def is_stopped(self) -> bool:
        with suppress(OSError):
            return is_stopped(self._process.pid)
        return False

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
