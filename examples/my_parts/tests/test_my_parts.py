"""Every part keeps the contract of its kind: `pytest tests`, with the package installed."""

from rlstudio.testing import (
    DynamicsContract,
    LauncherContract,
    PlannerContract,
    SamplerContract,
    ScoreContract,
    SinkContract,
)


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


class TestSampler(SamplerContract):
    part = "halton"
