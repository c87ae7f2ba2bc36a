"""The algorithm behind a name, as far as a config needs it: its settings, and what it can be used for."""

from __future__ import annotations

from typing import cast

from rlstudio.algos.parts.config import RunLength
from rlstudio.core.catalog import ALGOS
from rlstudio.core.contracts import Algorithm
from rlstudio.core.errors import UserError


def algorithm(name: str) -> Algorithm:
    """The algorithm behind a name; this imports it."""
    loaded: Algorithm = ALGOS.load(name)
    config = getattr(loaded, "Config", None)
    is_config = isinstance(config, type) and issubclass(config, RunLength)
    if not (is_config and hasattr(loaded, "off_policy") and hasattr(loaded, "discrete")):
        target = ALGOS.find(name).target
        raise UserError(
            f"algo {name!r}: {target} must have a Config that extends TrainConfig or RunLength, and say off_policy and"
            " discrete"
        )
    return loaded


def train_section(algo: str) -> type[RunLength]:
    """The class of the section `train`."""
    return cast("type[RunLength]", algorithm(algo).Config)
