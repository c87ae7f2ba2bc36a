"""What is the same in every process of these tests, and is found out once for all that are forked from one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import patch


def know_the_numerics() -> None:
    """The probe of the processor."""
    import_module("rlstudio.experiment.training.numerics").fingerprint("cpu")


def know_the_commit() -> None:
    """The commit of this checkout: to ask git takes four processes, and in a fresh clone some compare every file."""
    lineage: Any = import_module("rlstudio.experiment.lineage.lineage")
    ask, checkout = lineage.commit_of, lineage._PACKAGE.parents[1]
    own = ask(checkout)

    def known(directory: Path) -> Any:
        with suppress(OSError):  # the working directory is gone
            if directory.absolute() == checkout:
                return own
        return ask(directory)

    lineage.commit_of = known


@contextmanager
def commit_asked_anew() -> Iterator[None]:
    """For a run that is compared with the code as it is later: somebody may edit it while the tests run."""
    git: Any = import_module("rlstudio.experiment.lineage.git")
    with patch("rlstudio.experiment.lineage.lineage.commit_of", git.commit_of):
        yield
