"""RLStudio: reinforcement learning from a YAML file to a policy in production.

The public face, loaded when it is asked for, so that `import rlstudio` stays light:

    rlstudio.orchestrator      runs, sweeps and releases from Python
    rlstudio.open_bundle       a shipped policy: `open_bundle("folder").policy()`
    rlstudio.load_agent        the agent of a run: `load_agent("runs/RUN").act(observation)`
    rlstudio.log               a metric of your own: `log("distance", 3.2)` in the process that trains
    rlstudio.core.contracts    what an environment, an agent or an algorithm of your own must offer (import it)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from rlstudio.core.version import __version__

if TYPE_CHECKING:
    from rlstudio import orchestrator
    from rlstudio.core.own_metrics import log
    from rlstudio.delivery.bundle import open_bundle
    from rlstudio.experiment.run.load import load_agent

__all__ = ["__version__", "load_agent", "log", "open_bundle", "orchestrator"]

_FACE = {
    "open_bundle": "rlstudio.delivery.bundle",
    "load_agent": "rlstudio.experiment.run.load",
    "log": "rlstudio.core.own_metrics",
}


def __getattr__(name: str) -> object:
    if name == "orchestrator":
        return import_module("rlstudio.orchestrator")
    if name not in _FACE:
        raise AttributeError(f"module 'rlstudio' has no attribute {name!r}")
    return getattr(import_module(_FACE[name]), name)
