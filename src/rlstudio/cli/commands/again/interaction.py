"""A run at a past step in the user's hands: a Python shell, or a script of theirs."""

from __future__ import annotations

import code
import runpy
import traceback
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from rlstudio.cli.failures import complain
from rlstudio.core.errors import UserError, message_of

if TYPE_CHECKING:
    from rlstudio.experiment.analysis.repeat.rewind import Rewound

BANNER = """\
trainer, agent, cfg, session: of a copy of the run at that step; the run is not touched.
moment.advance() does its next train step, moment.state_hash() names its state. Ctrl-D leaves."""


def names_of(moment: Rewound) -> dict[str, object]:
    """What shell and script find."""
    return {
        "moment": moment,
        "session": moment.session,
        "trainer": moment.trainer,
        "agent": moment.trainer.agent,
        "cfg": moment.cfg,
    }


def open_shell(moment: Rewound) -> None:
    with suppress(ImportError):
        import readline  # noqa: F401  # the arrow keys of the shell
    with suppress(SystemExit):  # exit()
        code.interact(BANNER, local=names_of(moment), exitmsg="")


def run_script(file: Path, moment: Rewound) -> int:
    """Returns the exit code that it asked for. An error in it is its user's, with the traceback from its first line."""
    try:
        runpy.run_path(str(file), init_globals=names_of(moment), run_name="__main__")
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        complain(str(end.code))
        return 1
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        first = next((at for at, frame in enumerate(frames) if frame.filename == str(file)), 0)
        for line in "".join(traceback.format_list(frames[first:])).splitlines():
            complain(line)
        where = f"{file}:{frames[first].lineno}"
        raise UserError(f"{where}: {type(error).__name__}: {message_of(error)}") from error
    return 0
