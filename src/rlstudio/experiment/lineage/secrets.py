"""A command line without its secrets, for records that other people read.

It masks by what a value is called (`--api-key X`, `tracking.token=X`, `{password: X}`) and by how it looks (a password
in an address, tokens of known services). A secret under an innocent name passes: a command line is no place for one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence

MASK = "***"

_NAME = r"""(?ix)
    [\w.-]* (?: password | passwd | passphrase | secret | credential | api[-_.]?key ) [\w.-]*
  | (?: [\w.-]* [-_.] )? (?: token | auth | authorization | bearer | cookie | pwd | (?:access|private)[-_.]?key )
    (?: [-_.] [\w.-]* )?
"""
"""The second half only as whole words: `max_tokens` and `author` are settings."""

_IS_SECRET = re.compile(_NAME)
_ASSIGNED = re.compile(r"""(?<![\w.-])(?P<name>[\w.-]++)["']?\s*[=:]\s*""")
SHORTEST_SECRET = 6
"""Characters of a variable's value that is looked for in texts; a shorter one would be part of common words."""

_PLACES = ("PWD", "OLDPWD")
"""Where a shell is and was: no password, and a part of every path below."""

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_ADDRESS = re.compile(r"(?<=://)[^/\s]*@")
_KNOWN = re.compile(
    r"(?<![A-Za-z0-9])(?:gh[a-z]_|github_pat_|glpat-|hf_|sk-|xox[a-z]-|AKIA|eyJ)[\w.-]{8,}|\b(?i:bearer|basic)\s+\S+"
)


def masked(argv: Sequence[str]) -> list[str]:
    """The arguments, with everything that looks like a secret replaced by `***`."""
    arguments = []
    announced = False  # the argument before was `--token` alone
    for argument in argv:
        if announced and not argument.startswith("--"):
            arguments.append(MASK)
            announced = False
            continue
        arguments.append(_masked(argument))
        announced = argument.startswith("-") and _is_secret(argument.lstrip("-"))
    return arguments


def _masked(argument: str) -> str:
    for assigned in _ASSIGNED.finditer(argument):
        if _is_secret(assigned["name"]):
            # To the end: where the secret stops is not known.
            argument = argument[: assigned.end()] + MASK
            break
    return _KNOWN.sub(MASK, _ADDRESS.sub(f"{MASK}@", argument))


def _is_secret(name: str) -> bool:
    return _IS_SECRET.fullmatch(_HUMP.sub("_", name.strip("-."))) is not None


def masked_text(text: str) -> str:
    """A message of other code without its secrets: also those that the variables of this process hold."""
    for name, value in os.environ.items():
        if len(value) >= SHORTEST_SECRET and name not in _PLACES and _is_secret(name):
            text = text.replace(value, MASK)
    return _masked(text)


def masked_settings(value: object, name: str = "") -> object:
    """Settings as they may leave the machine: what is called like a secret, or looks like one, is masked."""
    if isinstance(value, Mapping):
        return {key: masked_settings(inner, str(key)) for key, inner in value.items()}
    if value is not None and _is_secret(name):
        return MASK
    if isinstance(value, list | tuple):
        return [masked_settings(inner) for inner in value]
    return masked_text(value) if isinstance(value, str) else value
