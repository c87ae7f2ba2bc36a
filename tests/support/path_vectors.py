"""Texts that mean to leave a folder, and things that may lie in a folder in place of what belongs there."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

TEXTS = {
    # up and out
    "parent": "..",
    "parent slash": "../",
    "the canary": "../outside/canary",
    "the victim": "../outside/{victim}",
    "two up": "../../outside",
    "forty up": "../" * 40 + "etc/passwd",
    "here and up": "./../outside",
    "down and up": "a/../../outside/{victim}",
    "through the run": "{id}/../../outside/{victim}",
    "stripped once": "....//....//outside",
    "semicolon": "..;/outside",
    "triple dots": ".../outside",
    # encoded
    "percent dots": "%2e%2e/outside",
    "percent slash": "..%2foutside",
    "percent all": "%2e%2e%2foutside",
    "percent upper": "%2E%2E%2Foutside",
    "percent twice": "%252e%252e%252foutside",
    "percent thrice": "%25252e%25252e%25252foutside",
    "overlong dots": "%c0%ae%c0%ae/outside",
    "overlong slash": "..%c0%afoutside",
    "overlong three": "%e0%80%ae%e0%80%ae%e0%80%afoutside",
    "percent u": "%u002e%u002e%u2215outside",
    "percent NUL": "{id}%00",
    "percent newline": "{id}%0a",
    "lone percent": "%",
    "html entity": "&#46;&#46;&#47;outside",
    # other systems
    "backslash": "..\\outside\\{victim}",
    "backslash first": "\\..\\outside",
    "percent backslash": "..%5coutside",
    "both slashes": "..\\/outside",
    "drive": "C:\\Windows\\win.ini",
    "drive relative": "C:outside",
    "UNC": "\\\\host\\share",
    "device namespace": "\\\\?\\C:\\x",
    "device name": "CON",
    "device with suffix": "aux.txt",
    "stream": "{id}::$DATA",
    "colon": "a:b",
    "module": "os:system",
    # absolute
    "root": "/",
    "absolute": "/etc/passwd",
    "double slash": "//etc/passwd",
    "absolute canary": "{outside}/canary",
    "absolute victim": "{outside}/{victim}",
    "absolute and up": "{outside}/../outside/canary",
    "file URL": "file:///etc/passwd",
    "web URL": "http://127.0.0.1/x",
    "proc": "/proc/self/environ",
    # cut short
    "NUL": "a\0b",
    "NUL alone": "\0",
    "NUL after the run": "{id}\0.png",
    "NUL after the victim": "../outside/{victim}\0",
    "newline": "a\nb",
    "newline after": "../outside\n",
    "carriage return": "a\r\nb",
    "tab": "a\tb",
    "line separator": "a\u2028b",
    "next line": "a\x85b",
    # too much
    "long": "a" * 5000,
    "long path": "../" * 1700,
    "long part": "a/" + "b" * 300,
    "long number": "9" * 5000,
    # nearly the run
    "trailing dot": "{id}.",
    "trailing dots": "{id}..",
    "trailing space": "{id} ",
    "leading space": " {id}",
    "trailing slash": "{id}/",
    "the run itself": "{id}/.",
    "above the run": "{id}/..",
    "inside the run": "{id}/checkpoints",
    "sibling": "{id}evil",
    "inside the sibling": "{id}evil/status.json",
    "sibling folder": "../runsevil/{id}",
    "upper case": "{ID}",
    # look-alikes
    "division slash": "..\u2215outside",
    "fraction slash": "..\u2044outside",
    "full-width slash": "..\uff0foutside",
    "full-width dots": "\uff0e\uff0e/outside",
    "full-width backslash": "..\uff3coutside",
    "two dot leader": "\u2025/outside",
    "one dot leaders": "\u2024\u2024/outside",
    "zero width": "..\u200b/outside",
    "byte order mark": "\ufeff../outside",
    "right to left": "\u202e..",
    "other digits": "\u0661\u0662\u0668",
    "superscript": "\u00b2",
    "lone surrogate": "\udcff",
    # words with a meaning of their own
    "here": ".",
    "empty": "",
    "home": "~",
    "home of root": "~root",
    "below home": "~/outside",
    "options": "-rf",
    "end of options": "--",
    "an option": "--no-such-option=/",
    "standard input": "-",
    "command": "$(touch x)",
    "backticks": "`touch x`",
    "next command": ";touch x",
    "pipe": "|touch x",
    "variable": "$HOME",
    "braced variable": "${HOME}",
    "star": "*",
    "question mark": "?",
    "range": "[0-9]*",
    "braces": "{{0}}",
    "format": "%s%s%n",
    "response file": "@/etc/passwd",
    # steering the terminal
    "clear screen": "\x1b[2J",
    "window title": "\x1b]0;x\x07",
    "delete": "\x7f",
    "bell": "a\x07b",
    "C1": "\x9b2J",
    # ours
    "state folder": ".rlstudio",
    "store": ".rlstudio/store.db",
    "lock": ".lock",
    "unfinished": ".tmp-abc",
    "trash": ".trash-abc",
}


def texts(run_id: str, outside: Path, victim: str) -> dict[str, str]:
    """The vectors by name, aimed at what the test has put there."""
    known = {"{id}": run_id, "{ID}": run_id.upper(), "{outside}": str(outside), "{victim}": victim, "{{0}}": "{0}"}
    found = dict(TEXTS)
    for word, value in known.items():
        found = {name: text.replace(word, value) for name, text in found.items()}
    return found


# -- traps: each takes the place of `path`, whose original lies at `original`, outside; following it would work --------


def link(path: Path, original: Path) -> None:
    path.symlink_to(original)


def link_by_dots(path: Path, original: Path) -> None:
    path.symlink_to(os.path.relpath(original, path.parent))


def dangling(path: Path, original: Path) -> None:
    """What is created through it would appear outside."""
    path.symlink_to(original.with_name(original.name + ".new"))


def loop(path: Path, original: Path) -> None:
    path.symlink_to(path.name)


def device(path: Path, original: Path) -> None:
    path.symlink_to("/dev/zero")


def pipe(path: Path, original: Path) -> None:
    os.mkfifo(path)


def hard_link(path: Path, original: Path) -> None:
    if original.is_dir():  # of each file in it: folders have none
        shutil.copytree(original, path, copy_function=os.link)
    else:
        path.hardlink_to(original)


def listener(path: Path, original: Path) -> None:
    """A socket. Its address has room for 107 characters, so it is bound from where it lies."""
    here = Path.cwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


def swapped(path: Path, original: Path) -> None:
    """A folder for a file, a file for a folder."""
    if original.is_dir():
        path.write_bytes(b"")
    else:
        path.mkdir()


Trap = Callable[[Path, Path], None]
TRAPS: dict[str, Trap] = {
    trap.__name__: trap for trap in (link, link_by_dots, dangling, loop, device, pipe, hard_link, listener, swapped)
}
