"""What has changed between two starts: config, code, libraries, what is computed on. For the one who asks why the same
run gave other numbers: the most likely reason first, each as far as it was recorded, down to the source file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from rlstudio.experiment.lineage.git import Commit, changed_since
from rlstudio.experiment.lineage.lineage import Lineage

ABSENT = None
OWN_PACKAGE = "src/rlstudio/"
BESIDE_TRAINING = ("cli", "client", "control", "delivery", "orchestrator", "server", "testing", "zoo")
"""Folders of the package that no training step is computed in."""

OWN_DISTRIBUTIONS = ("rlctl", "rlstudio")


class OriginChange(NamedTuple):
    what: str  # config, code, library, topology or machine
    name: str
    then: object
    now: object

    def to_json(self) -> dict[str, object]:
        return self._asdict()


def code_changes(then: Lineage, now: Lineage) -> Iterator[OriginChange]:
    """Of RLStudio, of the project around the run, and of modules that the user named by their files."""
    before, after = then.get("versions", {}).get("rlstudio"), now.get("versions", {}).get("rlstudio")
    if before != after:
        yield OriginChange("code", "rlstudio", before, after)
    for name, keep in (("rlstudio", _is_of_the_package), ("project", _is_source)):
        yield from _files(name, then, now, keep)
    if then.get("source") and now.get("source") and then["source"] != now["source"]:
        yield OriginChange("code", "the files of the installed rlstudio", then["source"][:12], now["source"][:12])
    imports = now.get("imports", {})
    for name, module in then.get("imports", {}).items():
        other = imports.get(name)
        if other is not None and other["sha256"] != module["sha256"]:
            yield OriginChange("code", other["file"], module["sha256"][:12], other["sha256"][:12])


def _files(name: str, then: Lineage, now: Lineage, keep: Callable[[str], bool]) -> Iterator[OriginChange]:
    before, after = _commit(then, name), _commit(now, name)
    if before is None or after is None:
        return
    label = "the checkout" if name == "rlstudio" else "the project around the run"
    commits = before["commit"][:12], after["commit"][:12]
    files = changed_since(Path(after["root"]), before)
    if files is None:
        if commits[0] != commits[1] or before["dirty"] or after["dirty"]:
            yield OriginChange("code", f"the commit of {label}", _described(before), _described(after))
        return
    for file in sorted(filter(keep, files), key=_is_beside_training):
        yield OriginChange("code", file, commits[0], commits[1] + ("" if after["dirty"] is False else ", edited"))


def _commit(lineage: Lineage, name: str) -> Commit | None:
    """A folder may say anything."""
    code = lineage.get("code")
    commit = code.get(name) if isinstance(code, Mapping) else None
    return commit if isinstance(commit, Mapping) and {"root", "commit", "dirty"} <= commit.keys() else None


def _described(commit: Commit) -> str:
    return commit["commit"][:12] + (", edited" if commit["dirty"] else "")


def _is_of_the_package(file: str) -> bool:
    return file.startswith(OWN_PACKAGE)


def _is_beside_training(file: str) -> bool:
    """Such a file is the least likely reason for another result."""
    return file.removeprefix(OWN_PACKAGE).partition("/")[0] in BESIDE_TRAINING


def _is_source(file: str) -> bool:
    return file.endswith(".py")


def library_changes(then: Lineage, now: Lineage) -> Iterator[OriginChange]:
    """Every distribution, where all were recorded; else those that always were, and whether there are others."""
    python = then.get("versions", {}).get("python"), now.get("versions", {}).get("python")
    if python[0] != python[1]:
        yield OriginChange("library", "python", *python)
    mine, yours = then.get("packages"), now.get("packages")
    if mine is not None and yours is not None:
        for name in sorted({**mine, **yours}):
            if name not in OWN_DISTRIBUTIONS and mine.get(name) != yours.get(name):
                yield OriginChange("library", name, mine.get(name, ABSENT), yours.get(name, ABSENT))
        return
    before, after = then.get("versions", {}), now.get("versions", {})
    named = [name for name in before if name not in ("rlstudio", "python") and before[name] != after.get(name)]
    for name in named:
        yield OriginChange("library", name, before[name], after.get(name))
    hashes = then.get("lock_hash"), now.get("lock_hash")
    if not named and hashes[0] != hashes[1]:
        yield OriginChange("library", "an installed package", str(hashes[0])[:12], str(hashes[1])[:12])


def machine_changes(then: Lineage, now: Lineage) -> Iterator[OriginChange]:
    """What bits may depend on; how much memory there is does not decide them."""
    mine, yours = then.get("hardware", {}), now.get("hardware", {})
    for name in ("cpu", "gpus"):
        if mine.get(name) != yours.get(name):
            yield OriginChange("machine", name, mine.get(name), yours.get(name))
    if then.get("platform") != now.get("platform"):
        yield OriginChange("machine", "platform", then.get("platform"), now.get("platform"))
