"""A command of the user's, given as one argument."""

from __future__ import annotations

import shlex
import shutil

from rlstudio.core.errors import UserError


def command_words(text: str | None) -> list[str]:
    """Split as a shell would, and refused at once where there is no such program: nobody looks when a run ends."""
    if text is None:
        return []
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UserError(f"--notify {text!r}: {error}; close the quotes") from error
    if not words:
        raise UserError("--notify: is empty; give a command, or leave it out")
    if shutil.which(words[0]) is None:
        raise UserError(f"--notify {words[0]}: there is no such program; give its path, or install it")
    return words
