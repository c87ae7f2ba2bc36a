"""`runtime.trace`: phases of all processes of a run, with no effect on what it comes to."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlstudio.core.config import config_hash
from rlstudio.core.errors import StorageError
from rlstudio.core.host.trace import TRACE
from rlstudio.experiment.analysis.profile import profile_of
from rlstudio.experiment.analysis.repeat.rewind import way_to
from rlstudio.experiment.metrics.trace_file import FILE, SpanSum, read_trace
from support.experiments import tiny
from support.tiny_runs import assert_same_result, run_to_the_end

PHASES = {"collect", "update", "evaluate", "checkpoint"}


def spans(run) -> dict[str, set[str]]:
    """Their names, by process."""
    sums = read_trace(run.path)
    return {process: {one.name for one in sums if one.process == process} for process in {one.process for one in sums}}


@pytest.mark.parametrize("algo", ["ppo", "dqn"])
def test_it_has_every_phase_and_changes_nothing(algo: str, tmp_path: Path) -> None:
    plain, traced = tiny(algo), tiny(algo, runtime={"trace": True})
    assert config_hash(plain) == config_hash(traced)
    one, other = run_to_the_end(plain, tmp_path / "plain"), run_to_the_end(traced, tmp_path / "traced")
    assert_same_result(other, one)
    assert spans(one) == {}
    assert spans(other) == {"training": PHASES}
    assert not TRACE.is_on
    profile = profile_of(other)
    assert sum(profile.phases.values()) == pytest.approx(profile.seconds)
    assert profile.env_steps == 192
    assert profile.spans[0].seconds > 0
    with way_to(other, 64).open():
        assert not TRACE.is_on  # a copy that is looked at is not traced


@pytest.mark.real_process
@pytest.mark.parametrize(
    ("sections", "titles"),
    [
        (
            {"env": {"vectorization": "async", "workers": 2}},
            {"environments 0 to 0": "step", "environments 1 to 1": "step"},
        ),
        pytest.param(
            {"rollout": {"workers": 2, "backend": "process"}},
            {f"rollout worker of environment {first} and on": "collect" for first in (0, 1)},
            marks=pytest.mark.slow,
        ),
        pytest.param({"runtime": {"trace": True, "learners": 2}}, {"rank 1": "train step"}, marks=pytest.mark.slow),
    ],
)
def test_processes_that_work_for_it_are_in_it(sections, titles, tmp_path: Path) -> None:
    run = run_to_the_end(tiny("ppo", **{"runtime": {"trace": True}, **sections}), tmp_path)
    recorded = spans(run)
    assert recorded.keys() == {"training", *titles}
    for title, name in titles.items():
        assert name in recorded[title]


def test_the_sums_of_a_trace(tmp_path: Path) -> None:
    (tmp_path / "artifacts").mkdir()
    (tmp_path / FILE).write_text(
        '[{"name":"process_name","ph":"M","pid":7,"args":{"name":"training"}},'
        '{"name":"a","ph":"X","pid":7,"tid":7,"ts":0,"dur":2000000},{"name":"a","ph":"X","pid":7,"tid":7,"ts":9,"dur":1e6},'
        '{"name":"b","ph":"X","pid":8,"tid":8,"ts":0,"dur":5e6}]'
    )
    sums = read_trace(tmp_path)
    assert sums == [SpanSum("training", "a", 2, 3.0), SpanSum("process 8", "b", 1, 5.0)]
    assert sums[0].mean_ms == 1500
    (tmp_path / FILE).write_text("[{")
    with pytest.raises(StorageError, match=r"trace.json: is not a trace: .*; remove it"):
        read_trace(tmp_path)
