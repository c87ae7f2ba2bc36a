"""Every world of the catalog, and the toys that stand for those of other packages, keeps the contract of World."""

from __future__ import annotations

import support.worlds  # registers its toys
from rlstudio.core.catalog import WORLDS
from rlstudio.testing import WorldContract
from support.contracts import suites

WORLDS_OF_OTHERS = (
    support.worlds.Slider,
    support.worlds.MaskedWorld,
    support.worlds.TwoTurns,
    support.worlds.ThreeAgents,
)
TOYS = [kind.id for kind in WORLDS_OF_OTHERS]

globals().update(suites(WorldContract, {name: {} for name in sorted({*WORLDS.builtin, *TOYS})}))
