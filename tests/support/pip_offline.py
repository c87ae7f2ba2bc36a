"""pip without a network: an index of empty wheels with the names and pinned versions of our requirements.

A command is run exactly as it is typed, by a shell; variables keep pip from installing and from asking anybody else.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

from rlstudio.core.host.installation import Requirement, requirements
from support.deadlines import PATIENCE
from support.pages import ROOT

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = list(PROJECT["optional-dependencies"])
PINS = dict(re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE))
CLOSED = "http://127.0.0.1:9"


def offline(home: Path) -> dict[str, str]:
    """The variables of a shell with an empty home and without a network."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "PYTHONPATH") if name in os.environ}
    proxies = {name: CLOSED for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY")}
    path = os.pathsep.join([str(Path(sys.executable).parent), kept.pop("PATH", "")])
    return {**kept, **proxies, "PATH": path, "HOME": str(home), "PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull}


def stub_index(folder: Path) -> Path:
    """A folder of wheels that hold nothing but their names and versions, RLStudio's own among them; beside them lies
    the package that the pages install from its source."""
    every = {item.package: item for extra in ("", *EXTRAS) for item in requirements(extra)}
    versions = {name: PINS.get(name) or _lowest(item) for name, item in every.items()}
    for name, version in (versions | {PROJECT["name"]: PROJECT["version"]}).items():
        stem = f"{re.sub(r'[-.]+', '_', name)}-{version}"
        with zipfile.ZipFile(folder / f"{stem}-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"{stem}.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
            wheel.writestr(f"{stem}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{stem}.dist-info/RECORD", "")
    shutil.copytree(ROOT / "examples/my_parts", folder / "examples/my_parts")
    return folder


def _lowest(requirement: Requirement) -> str:
    """Of what is not pinned: the lowest version that the range begins with."""
    return requirement.ranges[0].lstrip("=>") if requirement.ranges else "1"


def pip_would_install(line: str, index: Path) -> set[str]:
    """Names of the packages that pip would download and install."""
    report = index / "report.json"
    variables = offline(index) | {
        "PIP_DRY_RUN": "1",
        "PIP_IGNORE_INSTALLED": "1",
        "PIP_FIND_LINKS": str(index),
        "PIP_NO_BUILD_ISOLATION": "0",
        "PIP_REPORT": str(report),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
    done = subprocess.run(
        ["bash", "-c", line], env=variables, cwd=index, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr
    return {item["metadata"]["name"].lower() for item in json.loads(report.read_text())["install"]}
