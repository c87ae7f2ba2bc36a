"""Where a run comes from: code, packages, machine, command. Recorded at each start, so that two runs can be compared.

    code       {"rlstudio", "project"}: each {"root", "commit", "dirty"} or null. `rlstudio` is the checkout it runs
               from (null for an installed one), `project` the repository around the working directory, where it is
               another. See `git.commit_of` for `dirty` and `files`.
    source     only of an RLStudio that is no checkout: sha256 over the Python files of the package
    lock_hash  sha256 over the sorted `name==version` lines of every installed distribution
    packages   name and version of every installed distribution
    versions   of rlstudio, python, torch, numpy and gymnasium; null for what is not installed
    host       name of the machine
    platform   kernel, processor family and C library
    hardware   {"cpu", "cores", "memory", "gpus"}: model name or null, logical cores of the whole machine, bytes
               that its processes may use (of a container: its limit), names of its NVIDIA GPUs
    command    the command line, secrets masked
    directory  where it was launched; a run of the queue starts there too
    user       name of the account
    weights    only of a run that began with those of a bundle: {"bundle", "sha256", "kind"} and, as far as they are
               known, "version", "run_id", "checkpoint"
    reproduces only of a run that repeats another: the id of that one

Nothing here imports torch, and nothing here fails: what cannot be found out is null.
"""

from __future__ import annotations

import hashlib
import os
import platform
import pwd
import re
import subprocess
import sys
import warnings
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, TypedDict, cast

from rlstudio.core.errors import Notice
from rlstudio.core.host.ram import usable_ram
from rlstudio.core.version import __version__
from rlstudio.envs.own_modules import imported
from rlstudio.experiment.lineage.git import Commit, commit_of
from rlstudio.experiment.lineage.libraries import LIBRARIES
from rlstudio.experiment.lineage.secrets import masked

if TYPE_CHECKING:
    from rlstudio.experiment.folder.run_folder import RunFolder

EVENT = "lineage"
NVIDIA_SECONDS = 2.0

_PACKAGE = Path(__file__).resolve().parents[2]
_GPUS = Path("/proc/driver/nvidia/gpus")
_INSTALLED = re.compile(r"(?P<name>.+?)-(?P<version>[^-]+)(-py[\d.]+)?\.(dist|egg)-info")


class ImportedFile(TypedDict):
    """A module that the user named by its file."""

    file: str
    sha256: str


class Lineage(TypedDict, total=False):
    """As above; one that an older RLStudio recorded may lack some of it."""

    code: dict[str, Commit | None]
    source: str
    lock_hash: str
    packages: dict[str, str]
    versions: dict[str, str | None]
    host: str
    platform: str
    hardware: dict[str, object]
    command: list[str]
    directory: str | None
    user: str
    weights: dict[str, object]
    imports: dict[str, ImportedFile]
    reproduces: str


def lineage() -> Lineage:
    """Everything above, as JSON values; takes some 20 ms, nearly all of it git, or the hash of the source."""
    installed = installed_versions(sys.path)
    imports, code = _imported_files(), _code()
    return {
        **({"imports": imports} if imports else {}),
        "code": code,
        **({"source": source_hash()} if code["rlstudio"] is None else {}),
        "lock_hash": lock_hash(installed),
        "packages": installed,
        "versions": {
            "rlstudio": __version__,
            "python": platform.python_version(),
            **{name: installed.get(name) for name in LIBRARIES},
        },
        "host": os.uname().nodename,
        "platform": _platform(),
        "hardware": {"cpu": _cpu(), "cores": os.cpu_count(), "memory": _memory(), "gpus": _gpus()},
        "command": masked(sys.argv),
        "directory": _directory(),
        "user": _user(),
    }


def _imported_files() -> dict[str, ImportedFile]:
    files = {name: module.file for name, module in imported().items() if module.file is not None}
    hashed: dict[str, ImportedFile] = {}
    for name, file in files.items():
        with suppress(OSError):  # it was removed meanwhile
            hashed[name] = {"file": file, "sha256": hashlib.sha256(Path(file).read_bytes()).hexdigest()}
    return hashed


def record_lineage(folder: RunFolder, now: Lineage) -> list[str]:
    """For a run that goes on: the files that its environment comes from and that have another content than before. Each
    is recorded and said once; the run goes on with the new one."""
    changed: list[str] = []
    earlier = (recorded_lineage(folder) or {}).get("imports")
    for name, module in now.get("imports", {}).items():
        known = earlier.get(name) if isinstance(earlier, dict) else None  # a folder may say anything
        if isinstance(known, dict) and known.get("sha256") != module["sha256"]:
            folder.event("code_changed", module=name, file=module["file"], sha256=module["sha256"])
            text = f"{module['file']} has changed since the run was last started; it goes on with the file as it is now"
            warnings.warn(text, Notice, stacklevel=2)
            changed.append(module["file"])
    folder.event(EVENT, **now)
    return changed


def _directory() -> str | None:
    try:
        return os.getcwd()
    except OSError:  # it was removed
        return None


def recorded_lineage(folder: RunFolder) -> Lineage | None:
    """What the run recorded when it last started; None for one that never started."""
    latest = None
    for event in folder.events():
        if event.get("kind") == EVENT:
            latest = {name: value for name, value in event.items() if name not in ("ts", "kind")}
    return cast("Lineage | None", latest)


def machine_of(recorded: Lineage | None) -> str:
    """The machine in a few words: its name and its processor; empty where nothing is recorded."""
    host, hardware = (recorded or {}).get("host"), (recorded or {}).get("hardware")
    cpu = hardware.get("cpu") if isinstance(hardware, dict) else None  # a folder may say anything
    return f"{host} ({cpu})" if host and cpu else str(host or "")


def this_machine() -> str:
    return machine_of({"host": os.uname().nodename, "hardware": {"cpu": _cpu()}})


def installed_versions(path: Iterable[str]) -> dict[str, str]:
    """Normalized name and version of every distribution along `path`; the first of a name is the one imported.

    All of them, not only what RLStudio depends on: an environment may import anything. From the names of their metadata
    folders, because opening a hundred metadata files takes 90 ms and this takes 0.3.
    """
    versions: dict[str, str] = {}
    for entry in path:
        with suppress(OSError):  # a zip file, or a folder that is not there
            for name in sorted(os.listdir(entry or ".")):
                if match := _INSTALLED.fullmatch(name):
                    versions.setdefault(re.sub(r"[-_.]+", "-", match["name"]).lower(), match["version"])
    return versions


def lock_hash(installed: Mapping[str, str]) -> str:
    lines = sorted(f"{name}=={version}\n" for name, version in installed.items())
    return hashlib.sha256("".join(lines).encode(errors="surrogateescape")).hexdigest()


def source_hash() -> str:
    """Of the files of the package, by their names: also one that was edited where it is installed."""
    digest = hashlib.sha256()
    for file in sorted(_PACKAGE.rglob("*.py")):
        with suppress(OSError):
            content = file.read_bytes()
            digest.update(f"{file.relative_to(_PACKAGE).as_posix()}:{len(content)}:".encode() + content)
    return digest.hexdigest()


def _code() -> dict[str, Commit | None]:
    # An installed RLStudio may lie in `.venv/` inside another repository, whose commit says nothing about it.
    checkout = _PACKAGE.parents[1]
    own = commit_of(checkout) if (checkout / ".git").exists() else None
    around = commit_of(Path())
    is_own = own is not None and around is not None and around["root"] == own["root"]
    return {"rlstudio": own, "project": None if is_own else around}


def _platform() -> str:
    system = os.uname()
    libc = None
    with suppress(ValueError, OSError):  # a C library without this name for its version
        libc = os.confstr("CS_GNU_LIBC_VERSION")
    return " ".join(filter(None, (system.sysname, system.release, system.machine, libc)))


def _cpu() -> str | None:
    with suppress(OSError), open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        for line in file:
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return None


def _memory() -> int | None:
    with suppress(ValueError, OSError):
        return usable_ram()
    return None


def _gpus() -> list[str]:
    """From the driver's own files; nvidia-smi, which may have to wake the driver, only where those are missing."""
    with suppress(OSError):
        texts = [(gpu / "information").read_text(errors="replace") for gpu in sorted(_GPUS.iterdir())]
        return [match[1] for text in texts if (match := re.search(r"^Model:\s*(.+?)\s*$", text, re.MULTILINE))]
    if which("nvidia-smi") is None:
        return []
    with suppress(OSError, subprocess.SubprocessError):
        answer = subprocess.run(
            ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=NVIDIA_SECONDS,
            check=True,
        )
        return answer.stdout.decode(errors="replace").splitlines()
    return []


def _user() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:  # a container with a number for a user
        return str(os.geteuid())
