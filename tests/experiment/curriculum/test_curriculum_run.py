"""Runs with a curriculum: environments get its Draw, it is part of what resumes exactly, and a run says where it is."""

from __future__ import annotations

import pytest

from rlstudio.cli.screen.describe import _curriculum
from rlstudio.core.config import config_hash
from rlstudio.core.errors import ConfigError, GateFailed, UserError
from rlstudio.core.run_state import Reason, RunState
from rlstudio.envs.params.episodes import episode_params_of
from rlstudio.experiment.analysis.curriculum_standing import curriculum_standing
from rlstudio.experiment.config.experiment import experiment_from, new_run
from rlstudio.experiment.folder.lease import FileLease
from rlstudio.experiment.folder.run_folder import RunFolder
from rlstudio.experiment.metrics.indexed.index import read_series
from rlstudio.experiment.run.fork import copy_checkpoint
from rlstudio.experiment.run.session import Session
from rlstudio.experiment.training.build import build
from support.experiments import tiny, tiny_data
from support.kills import kill_and_compare, uninterrupted
from support.sessions import resume, start
from support.tiny_runs import assert_same_result, only_run, run_to_the_end

PASSED = {"metric": "length", "at_least": 1, "window": 6, "min_episodes": 3, "patience": 2}
STAGES = [
    {"name": "short", "params": {"length": {"uniform": [0.4, 0.6]}, "force": 10.0}, "gate": PASSED},
    {"name": "long", "params": {"length": {"uniform": [1.0, 1.4]}, "force": 8.0}, "gate": PASSED, "keep": 0.3},
    {"name": "any", "params": {"length": {"uniform": [0.3, 1.6]}, "force": {"uniform": [5.0, 9.0]}}, "keep": 0.4},
]
SECTIONS = {
    "stages": {"stages": STAGES, "success": {"metric": "length", "at_least": 20}},
    "adr": {
        "adr": {
            "parameters": {"length": {"start": [0.5, 0.5], "limits": [0.25, 1.5], "step": 0.1}},
            **{"metric": "length", "widen_at": 15, "narrow_at": 10, "buffer": 2},
        }
    },
}


def config(kind: str = "stages", vectorization: str = "native", **changes):
    return tiny(
        "ppo",
        env={"vectorization": vectorization},
        train={"epochs": 8, "steps_per_epoch": 128, "rollout_steps": 32},
        **{"curriculum": SECTIONS[kind], "ckpt": {"every_seconds": None, "every_epochs": 1}, **changes},
    )


def drawn(session: Session) -> list[float]:
    """The parameters of the open episodes."""
    params = episode_params_of(session.runtime.env)
    assert params is not None
    return [float(value) for column in params.values.values() for value in column]


@pytest.mark.real_process
def test_a_run_that_is_killed_ends_as_if_it_had_not_been(tmp_path) -> None:
    """Its history is part of the state that is compared."""
    cfg = config(ckpt={"every_seconds": 0.03, "keep_last": 2})
    twin = uninterrupted(cfg, tmp_path / "whole")
    assert len(kill_and_compare(cfg, twin, tmp_path, kills=2, seed=0)) == 2


@pytest.mark.parametrize(
    ("kind", "vectorization"),
    [
        *(("stages", "sync"), ("adr", "native")),
        *(pytest.param("stages", kind, marks=pytest.mark.slow) for kind in ("native", "async")),
    ],
)
def test_a_run_that_is_cut_in_its_second_stage_goes_on_bit_for_bit(kind, vectorization, tmp_path) -> None:
    cfg = config(kind, vectorization)
    streams, histories = [], []
    with start(cfg, tmp_path / "whole") as session:
        streams.append([drawn(session) for _ in session])
        histories.append(session.position.curriculum.history)
        whole = session.folder
    with start(cfg, tmp_path / "cut") as session:
        stream = []
        for tick in session:
            stream.append(drawn(session))
            if tick.report is None and session.position.curriculum.history:
                break
    run = only_run(tmp_path / "cut")
    with resume(run) as session:
        stream += [drawn(session) for _ in session]
        histories.append(session.position.curriculum.history)
    assert stream == streams[0]
    assert histories[0] == histories[1]
    assert len(histories[0]) >= 2
    assert_same_result(run, whole)


def test_each_stage_draws_from_its_own_ranges_and_the_run_says_so(tmp_path) -> None:
    with start(config(), tmp_path) as session:
        for _ in session:
            params = episode_params_of(session.runtime.env)
            for component, length in zip(params.components, params.values["length"], strict=True):
                low, high = STAGES[component]["params"]["length"]["uniform"]
                assert low <= length <= high
        folder = session.folder
    events = [event for event in folder.events() if event["kind"] == "curriculum_stage"]
    assert [(event["number"], event["stage"], event["why"]) for event in events] == [
        (2, "long", "gate"),
        (3, "any", "gate"),
    ]
    assert [event["epoch"] for event in events] == sorted(event["epoch"] for event in events)
    series = read_series(folder.path)
    stages = list(series["curriculum/stage"][1])
    assert sorted(stages) == stages
    assert (stages[0], stages[-1], len(stages)) == (1.0, 3.0, 8)
    assert all(0 <= value <= 1 for value in series["curriculum/success"][1])
    standing = curriculum_standing(folder)
    assert standing is not None
    assert (standing["kind"], standing["stage"], standing["stages"]) == ("stages", "any", ["short", "long", "any"])
    assert _curriculum(standing).startswith("stage 3 of 3, any: gate ")


def test_a_stage_that_is_not_passed_in_time_ends_the_run_as_a_gate_does(tmp_path) -> None:
    hopeless = {"name": "high", "params": {"length": 0.5}, "gate": {"metric": "return", "at_least": 1000}}
    cfg = tiny(curriculum={"stages": [{**hopeless, "max_steps": 64, "on_timeout": "stop"}, {**hopeless, "name": "x"}]})
    session = start(cfg, tmp_path)
    with session, pytest.raises(GateFailed, match=r"stage 'high' was not passed within its max_steps=64"):
        for _ in session:
            pass
    status = session.folder.read_status()
    assert (status.state, status.reason) == (RunState.FAILED, Reason.GATE_FAILED)


def test_evaluation_does_not_notice(tmp_path) -> None:
    with start(config(), tmp_path) as session:
        for _ in session:
            pass
        assert session.evaluation.vectorization == "sync"  # Gymnasium's own, with its own parameters


def test_the_hash_of_a_config_without_one_stays_and_another_curriculum_is_another_experiment() -> None:
    plain, staged = tiny(), tiny(curriculum=SECTIONS["stages"])
    assert "curriculum" not in tiny_data()
    assert config_hash(plain) == config_hash(tiny(curriculum=None))
    assert len({config_hash(cfg) for cfg in (plain, staged, tiny(curriculum=SECTIONS["adr"]))}) == 3


def test_what_env_params_says_of_a_parameter_stays_true() -> None:
    """Seen by the agent, and the parameters that the curriculum does not set."""
    params = {"length": {"uniform": [0.5, 0.5], "observed": True}, "gravity": {"uniform": [9.0, 10.0]}}
    built = build(tiny(env={"params": params}, curriculum=SECTIONS["adr"]))
    assert built.runtime.spaces.observation.shape == (5,)
    built.close()
    with pytest.raises(ConfigError, match="leave `every` out"):
        build(tiny(env={"params": {"length": {"value": 0.5, "every": "run"}}}, curriculum=SECTIONS["adr"]))


STAGE = {"name": "one", "params": {"length": 0.5}}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"curriculum": {"stages": [{**STAGE, "params": {"lenght": 0.5}}]}}, "curriculum: .*'lenght'.*length"),
        ({"env": {"id": "rlstudio/Chain-v0"}, "curriculum": {"stages": [STAGE]}}, "curriculum: .*length"),
        ({"env": {"vectorization": "envpool"}, "curriculum": {"stages": [STAGE]}}, "curriculum: .*EnvPool"),
        (
            {"curriculum": {"stages": [{**STAGE, "gate": {"metric": "speed", "at_least": 1}}]}},
            r"curriculum.stages\[0\].gate.metric: episodes have no 'speed'",
        ),
        (
            {"curriculum": {"stages": [{**STAGE, "gate": {"at_least": 1}}]}},
            r"curriculum.stages\[0\].gate.metric: nothing says what a success is; set curriculum.success",
        ),
        (
            {"curriculum": {"stages": [{**STAGE, "max_steps": 9}, {"name": "two", "params": {"force": 1}}]}},
            r"curriculum.stages\[1\].params: stage 'two' sets force and stage 'one' does not; set it in every stage",
        ),
        (
            {"curriculum": {"stages": [STAGE, {**STAGE, "name": "two"}]}},
            r"curriculum.stages\[0\]: stage 'one' has no way out; give it a gate, or max_steps",
        ),
        ({"env": {"params": {"lenght": 1}}, "curriculum": {"stages": [STAGE]}}, "env.params: .*'lenght'.*length"),
        (
            {"algo": "bc", "train": {"dataset": "cartpole/own-v0"}, "curriculum": {"stages": [STAGE]}},
            "curriculum: bc learns from a dataset, whose episodes no curriculum changes; leave it out",
        ),
        ({"curriculum": {}}, "curriculum: a curriculum has one of stages, anneal, levels, adr, and this one has none"),
        (
            {"curriculum": {"anneal": {"start": {"length": 1}, "end": {"length": {"uniform": [1, 2]}}}}},
            "curriculum.anneal.end.length: start and end must be of one kind",
        ),
        ({"curriculum": {"stages": [{**STAGE, "params": {"length": True}}]}}, r"curriculum.stages\[0\].params.length"),
    ],
)
def test_what_cannot_work_is_refused_in_one_line(changes, reason) -> None:
    with pytest.raises(UserError, match=reason) as caught:
        build(experiment_from(tiny_data(**changes)))
    assert "\n" not in str(caught.value)


def test_a_fork_into_another_curriculum_begins_it_anew(tmp_path) -> None:
    parent = run_to_the_end(config(), tmp_path / "parent")
    child_cfg = config(curriculum={"stages": [{**STAGES[0], "name": "first", "min_steps": 200}, STAGES[2]]})
    folder = RunFolder.create(tmp_path / "child", new_run(child_cfg))
    with FileLease(folder.path) as lease:
        copy_checkpoint(parent, "last", folder, lease)
    with Session.open(folder, child_cfg) as session:
        curriculum = session.position.curriculum
        assert curriculum.history == []
        assert curriculum.state_dict()["began"] == 8 * 128


def test_episodes_that_were_drawn_before_a_fork_do_not_count_for_another_curriculum(tmp_path) -> None:
    """Those that are open at that moment are of levels that the child does not have."""

    def levels(count: int, epochs: int):
        chosen = {"levels": {"parameter": "level", "count": count}, "success": {"metric": "return", "at_least": -0.5}}
        env = {"id": "rlstudio/GridLevels-v0", "num_envs": 8, "kwargs": {"levels": 64, "trivial": 32, "size": 5}}
        sizes = {"epochs": epochs, "steps_per_epoch": 256, "rollout_steps": 8}
        return tiny("ppo", env=env, train=sizes, curriculum=chosen, ckpt={"every_epochs": 1})

    parent, child_cfg = run_to_the_end(levels(64, 1), tmp_path / "parent"), levels(2, 8)
    folder = RunFolder.create(tmp_path / "child", new_run(child_cfg))
    with FileLease(folder.path) as lease:
        copy_checkpoint(parent, "last", folder, lease)
    with Session.open(folder, child_cfg) as session:
        open_levels = episode_params_of(session.runtime.env).values["level"].copy()
        for _ in session:
            pass
        machine = session.position.curriculum.state_dict()["machine"]
    assert open_levels.max() >= 2
    finished = sum(read_series(folder.path)["rollout/episodes"][1][1:])
    assert 0 < machine["now"] < finished, "the first one of each environment was the parent's"
