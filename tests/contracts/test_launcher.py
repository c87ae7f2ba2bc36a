"""Every launcher in the catalog keeps the contract of launchers; `ray` and `slurm` where their clusters are, in
tests/control/queue/ray_cases.py and test_slurm_runs.py."""

from __future__ import annotations

import pytest

from rlstudio.core.catalog import LAUNCHERS
from rlstudio.testing import LauncherContract
from support.contracts import suites

pytestmark = pytest.mark.real_process

globals().update(suites(LauncherContract, {name: {} for name in LAUNCHERS.names() if name not in ("ray", "slurm")}))
