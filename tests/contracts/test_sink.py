"""Every sink in the catalog keeps the contract of sinks."""

from __future__ import annotations

from rlstudio.core.catalog import SINKS
from rlstudio.testing import SinkContract
from support.contracts import suites

globals().update(suites(SinkContract, {name: {} for name in SINKS.names()}))
