"""What is the same in every process of these tests, and is found out once for all that are forked from one."""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any


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
