"""Makes the golden files of the formats that hold no run: tokens, the audit log, the log of fragments, a backup.

    PYTHONPATH=tests .venv/bin/python -m support.golden_formats

Only for a version that was never released: afterwards the files stay, and a new version gets some beside them.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from rlstudio.control.registry.backup import write_backup
from rlstudio.control.registry.promotion import PromotionConfig
from rlstudio.control.registry.records import Stage
from rlstudio.control.registry.releases import Releases
from rlstudio.control.workspace import Workspace
from rlstudio.core.contracts import FragmentRound, FragmentTag
from rlstudio.experiment.metrics.fragment_log import FragmentLog
from rlstudio.server.http.records.audit import AuditLog
from rlstudio.server.http.roles import Role
from rlstudio.server.http.tokens import Tokens
from support.control_world import request
from support.registry_world import write_policy

FORMATS = Path(__file__).parents[1] / "golden" / "formats-v1"
ROUNDS = [
    FragmentRound(0, "1/collector", [FragmentTag(0, 0, 64), FragmentTag(1, 0, 64)]),
    FragmentRound(1, "1/collector", [FragmentTag(1, 0, 64), FragmentTag(0, 1, 64)]),
]


def write(folder: Path) -> None:
    folder.mkdir(parents=True)
    tokens = Tokens(folder, lambda: 1_700_000_000.0)
    tokens.add("laptop", Role.READ)
    tokens.add("gone", Role.ACT, days=1)
    tokens.revoke("gone")
    audit = AuditLog(folder, lambda: 1_700_000_000.0)
    number = audit.begin("laptop", "act", "POST", "/runs")
    audit.end(number, "laptop", "act", "POST", "/runs", 201, "/runs/x")
    log = FragmentLog(folder)
    log.add(256, ROUNDS)
    log.close()
    with tempfile.TemporaryDirectory() as place:
        workspace = Workspace(Path(place) / "runs")
        workspace.store.create(request(name="golden"))
        write_policy(Path(place) / "bundle", skill=1)
        releases = Releases(workspace)
        version = releases.register_bundle("pole", Path(place) / "bundle")
        releases.promote(version, Stage.PRODUCTION, PromotionConfig(budget=20, margin=-100.0), force="the first")
        write_backup(workspace, folder / "backup.tar")


if __name__ == "__main__":
    shutil.rmtree(FORMATS, ignore_errors=True)
    write(FORMATS)
    for lock in FORMATS.rglob("*.lock"):
        lock.unlink()
