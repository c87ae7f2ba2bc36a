"""Every launcher in the catalog keeps the contract of launchers."""

from __future__ import annotations

import pytest

from rlstudio.core.catalog import LAUNCHERS
from rlstudio.testing import LauncherContract
from support.contracts import suites

pytestmark = pytest.mark.real_process

globals().update(suites(LauncherContract, {name: {} for name in LAUNCHERS.names()}))
