"""Every world of the catalog, and the toys that stand for those of other packages, keeps the contract of World."""

from __future__ import annotations

import support.worlds  # registers its toys
from rlstudio.core.catalog import WORLDS
from rlstudio.testing import WorldContract
from support.contracts import suites

TOYS = [kind.id for kind in (support.worlds.Slider, support.worlds.MaskedWorld, support.worlds.ThreeAgents)]

globals().update(suites(WorldContract, {name: {} for name in sorted({*WORLDS.builtin, *TOYS})}))
