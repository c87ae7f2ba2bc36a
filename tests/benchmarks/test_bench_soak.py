"""Ten of the fifty kills of `python -m benchmarks.scale --soak`, each kind twice."""

import pytest
from benchmarks.soak import KINDS, soak

pytestmark = pytest.mark.real_process


@pytest.mark.parametrize(("algo", "mode"), [("ppo", "async"), ("sac", "async")])
def test_workers_that_die_in_five_ways_leave_no_trace(algo, mode):
    soaked = soak(algo, mode, kills=len(KINDS))
    assert [kill.kind for kill in soaked.kills] == list(KINDS)
    assert soaked.restarts >= len(KINDS) + 1, "all at once are two"
    assert soaked.whole
