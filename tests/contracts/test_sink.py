"""Every sink in the catalog keeps the contract of sinks."""

from __future__ import annotations

import pytest

from rlstudio.core.catalog import SINKS
from rlstudio.testing import SinkContract
from support.contracts import suites

FOREIGN = ("mlflow", "wandb")
"""Seconds each, most of it the import of the library; `tests/experiment/metrics/test_sending.py` reads back what a run
sent there."""

globals().update(suites(SinkContract, {name: {} for name in SINKS.names() if name not in FOREIGN}))
for title, suite in suites(SinkContract, {name: {} for name in FOREIGN}).items():
    globals()[title] = pytest.mark.slow(suite)
