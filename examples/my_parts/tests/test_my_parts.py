"""Every part keeps the contract of its kind: `pytest tests`, with the package installed."""

from rlstudio.core.spaces import Box, Dict
from rlstudio.testing import (
    DynamicsContract,
    LaneContract,
    LauncherContract,
    LoadedAgentContract,
    ModelContract,
    PlannerContract,
    SamplerContract,
    ScoreContract,
    SinkContract,
    TrainerContract,
    VecEnvContract,
    WorldContract,
)


class TestAlgo(TrainerContract):
    part = "plain_q"


class TestLoadedAlgo(LoadedAgentContract):
    part = "plain_q"


class TestModel(ModelContract):
    part = "relu-values"
    settings = {"width": 6}


class TestModelWithMask(TestModel):
    mask = Box((3,), "uint8", (0,), (1,))
    observation = Dict((("action_mask", mask), ("numbers", ModelContract.observation)))


class TestWorld(WorldContract):
    part = "Ledge-v0"


class TestWorldWithoutMask(TestWorld):
    kwargs = {"mask": False}


class TestVectorOfWorlds(VecEnvContract):
    part = "Ledge-v0"


class TestLane(LaneContract):
    part = "one_pass"
    algos = {"plain_q": {}}


class TestPlanner(PlannerContract):
    part = "mirrored"
    worlds = ("Pendulum-v1",)


class TestDynamics(DynamicsContract):
    part = "weaker"


class TestScore(ScoreContract):
    part = "smooth"


class TestSink(SinkContract):
    part = "lines"


class TestLauncher(LauncherContract):
    part = "polite"
    settings = ("launcher.niceness=1",)  # on a busy machine more of it would let the run wait too long


class TestSampler(SamplerContract):
    part = "halton"
