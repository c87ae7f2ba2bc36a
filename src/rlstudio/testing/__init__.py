"""Contract suites: what every part of a kind promises, as tests that the author of a plug-in runs in three lines.

    from rlstudio.testing import PlannerContract

    class TestMyPlanner(PlannerContract):
        part = "my_planner"

`part` is the name in the catalog; other attributes of a suite make it small or say what a part is for. Needs pytest.
"""

try:
    import pytest
except ModuleNotFoundError as error:
    from rlstudio.core.host.installation import remedy

    raise ImportError(f"rlstudio.testing needs pytest; {remedy('dev', 'pytest')}") from error

SUITES = (
    "agents",
    "dynamics",
    "lanes",
    "launchers",
    "models",
    "native_worlds",
    "planners",
    "samplers",
    "scores",
    "sinks",
    "trainers",
    "vec_envs",
)
pytest.register_assert_rewrite(*(f"{__name__}.{suite}" for suite in SUITES))

from rlstudio.testing.agents import LoadedAgentContract  # noqa: E402
from rlstudio.testing.dynamics import DynamicsContract  # noqa: E402
from rlstudio.testing.lanes import LaneContract  # noqa: E402
from rlstudio.testing.launchers import LauncherContract  # noqa: E402
from rlstudio.testing.models import ModelContract  # noqa: E402
from rlstudio.testing.native_worlds import WorldContract  # noqa: E402
from rlstudio.testing.planners import PlannerContract  # noqa: E402
from rlstudio.testing.samplers import SamplerContract  # noqa: E402
from rlstudio.testing.scores import ScoreContract  # noqa: E402
from rlstudio.testing.sinks import SinkContract  # noqa: E402
from rlstudio.testing.trainers import TrainerContract  # noqa: E402
from rlstudio.testing.vec_envs import VecEnvContract  # noqa: E402

__all__ = [
    "DynamicsContract",
    "LaneContract",
    "LauncherContract",
    "LoadedAgentContract",
    "ModelContract",
    "PlannerContract",
    "SamplerContract",
    "ScoreContract",
    "SinkContract",
    "TrainerContract",
    "VecEnvContract",
    "WorldContract",
]
