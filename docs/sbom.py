"""The software bill of materials: `make sbom` writes `dist/sbom.cdx.json`, CycloneDX 1.6.

What is in it is what is installed of what `rlctl` asks for, extras and all, each with its version, its licence, the
packages it depends on, and the sha256 of what pip recorded of its files. Nothing is fetched.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from rlstudio.core.host.installation import DISTRIBUTION

TARGET = Path(__file__).parents[1] / "dist" / "sbom.cdx.json"
_NAME = re.compile(r"[\w.-]+")


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def needs(packages: Distribution) -> list[str]:
    """Packages that it asks for and that are here; those of extras too, where they are."""
    names = {canonical(match[0]) for line in packages.requires or [] if (match := _NAME.match(line))}
    return sorted(name for name in names if installed(name) is not None)


def installed(name: str) -> Distribution | None:
    try:
        return distribution(name)
    except PackageNotFoundError:
        return None


def closure(root: str) -> dict[str, Distribution]:
    packages: dict[str, Distribution] = {}
    waiting = [root]
    while waiting:
        name = waiting.pop()
        one = installed(name)
        if name not in packages and one is not None:
            packages[name] = one
            waiting += needs(one)
    return dict(sorted(packages.items()))


def purl(name: str, one: Distribution) -> str:
    return f"pkg:pypi/{name}@{one.version}"


def component(name: str, one: Distribution) -> dict[str, Any]:
    licence = one.metadata.get("License-Expression") or one.metadata.get("License") or ""
    record = one.read_text("RECORD") or one.read_text("METADATA") or ""
    return {
        "type": "application" if name == DISTRIBUTION else "library",
        "bom-ref": purl(name, one),
        "name": name,
        "version": one.version,
        "purl": purl(name, one),
        **({"licenses": [{"license": {"name": licence.splitlines()[0][:200]}}]} if licence.strip() else {}),
        "properties": [{"name": "sha256 of RECORD", "value": hashlib.sha256(record.encode()).hexdigest()}],
    }


def bill() -> dict[str, Any]:
    packages = closure(canonical(DISTRIBUTION))
    root = packages[DISTRIBUTION]
    libraries = {name: one for name, one in packages.items() if name != DISTRIBUTION}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": component(DISTRIBUTION, root),
            "properties": [{"name": "python", "value": sys.version.split()[0]}],
        },
        "components": [component(name, one) for name, one in libraries.items()],
        "dependencies": [
            {"ref": purl(name, one), "dependsOn": [purl(need, packages[need]) for need in needs(one)]}
            for name, one in packages.items()
        ],
    }


def main() -> None:
    TARGET.parent.mkdir(exist_ok=True)
    made = bill()
    TARGET.write_text(json.dumps(made, indent=1, sort_keys=True) + "\n")
    sys.stdout.write(f"{TARGET}: {len(made['components'])} packages\n")


if __name__ == "__main__":
    main()
