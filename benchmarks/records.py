"""What a measurement was made with and on: the part of a result file that makes the numbers worth keeping."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rlstudio.core.host.ram import usable_ram

RESULTS = Path(__file__).resolve().parent / "results"


def machine() -> dict[str, Any]:
    """Facts that explain a number; nothing that tells whose machine it is."""
    return {
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "processor": _processor(),
        "memory_gib": round(usable_ram() / 2**30),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }


def provenance(versions: dict[str, dict[str, str]]) -> dict[str, Any]:
    """Command, date, machine, versions."""
    module = "benchmarks." + Path(sys.argv[0]).stem
    return {
        "command": " ".join(["python", "-m", module, *sys.argv[1:]]),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": machine(),
        "versions": versions,
        "commit": _commit(),
    }


def write_result(name: str, result: dict[str, Any], folder: Path = RESULTS) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    path.write_text(json.dumps(result, indent=1) + "\n")
    return path


def read_result(name: str, folder: Path = RESULTS) -> dict[str, Any] | None:
    path = folder / f"{name}.json"
    if not path.exists():
        return None
    result: dict[str, Any] = json.loads(path.read_text())
    return result


def _commit() -> str:
    """The commit that was measured, with a + when files differed from it."""
    told = []
    for command in (
        ["rev-parse", "--short=12", "HEAD"],
        ["status", "--porcelain", "--untracked-files=no", "--", "src"],
    ):
        done = subprocess.run(["git", *command], capture_output=True, text=True, cwd=RESULTS.parent, check=False)
        told.append(done.stdout.strip())
    return f"{told[0] or 'unknown'}{'+' if told[1] else ''}"


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or "unknown"
