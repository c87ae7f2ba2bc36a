"""An agent that plans ships: its bundle plans as it did, asks for no more than it may, and imports nothing."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from functools import partial

import numpy as np
import pytest

from rlstudio import load_agent, orchestrator
from rlstudio.control.registry.promotion import PromotionConfig
from rlstudio.control.registry.records import Stage
from rlstudio.control.registry.releases import Releases
from rlstudio.control.workspace import Workspace
from rlstudio.core.catalog import PLANNERS, Part
from rlstudio.core.errors import BundleError, Incompatible, ParityFailed
from rlstudio.delivery import graphs, plan_parity
from rlstudio.delivery.bundle import open_bundle
from rlstudio.delivery.export import export_agent
from rlstudio.delivery.plan import plan_spec
from rlstudio.delivery.spec import BundleOrigin
from rlstudio.experiment.training.build import build_runtime, build_trainer
from rlstudio.server.policy.app import ServedPolicy
from rlstudio.server.policy.requests import BadInput, parse_request
from rlstudio.storage.seal import sealed
from rlstudio.testing.agents import after_updates
from support.experiments import tiny, tiny_data

NUMBERS = {"env": {"id": "Pendulum-v1"}}
CASES = {
    "mpc": tiny("mpc", **NUMBERS, train={"planner": {"kind": "icem"}}),
    "mbmpc": tiny(
        "mbmpc",
        train={
            "planner": {"kind": "guided", "policy_candidates": 2},
            "dynamics": {"noise": True},
            "value": {"hidden_sizes": [5]},
        },
    ),
    "diffusion": tiny("diffusion", **NUMBERS),
}
ORIGIN = BundleOrigin(kind="run", run_id="r", checkpoint=5)


def ship(agent, cfg, target, formats=("bundle",), plan=None):
    return export_agent(
        agent,
        target,
        model=plan or plan_spec(cfg),
        formats=formats,
        name="toy",
        algo=cfg.policy.algo,
        origin=ORIGIN,
        env=cfg.env,
        config_yaml="{}\n",
    )


@pytest.fixture(scope="module", autouse=True)
def _quick():
    """Fewer rows than a user gets: `test_a_thousand_observations_are_compared` says how many those are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan_parity, "played_plans", partial(plan_parity.played_plans, rows=32))
        yield


@pytest.fixture(scope="module")
def trained():
    return {algo: after_updates(cfg).agent for algo, cfg in CASES.items()}


@pytest.fixture(scope="module")
def shipped(trained, tmp_path_factory):
    place = tmp_path_factory.mktemp("plans")
    return {algo: ship(trained[algo], cfg, place / algo) for algo, cfg in CASES.items()}


@pytest.fixture
def copy(shipped, tmp_path):
    def copied(algo):
        shutil.copytree(shipped[algo].path, tmp_path / algo)
        return tmp_path / algo

    return copied


def forge(path, change):
    spec = json.loads((path / "spec.json").read_text())
    change(spec)
    (path / "spec.json").write_text(json.dumps(spec))
    files = {file.name: file.read_bytes() for file in sorted(path.iterdir()) if file.name != "MANIFEST.json"}
    listed = {name: {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in files.items()}
    (path / "MANIFEST.json").write_bytes(sealed({"kind": "rlstudio-bundle", "version": 1, "files": listed}))
    return open_bundle(path)


@pytest.mark.parametrize("algo", CASES)
def test_it_plans_as_the_live_agent(algo, trained, shipped):
    live, bundled = trained[algo], open_bundle(shipped[algo].path).policy()
    ours, theirs = live.episode(), bundled.episode()
    generator = np.random.default_rng(0)
    for _ in range(4):
        observations = generator.uniform(-0.1, 0.1, (3, *live.spaces.observation.shape)).astype(np.float32)
        assert np.array_equal(ours.act(observations), theirs.act(observations))
    plans = [agent.noise(np.random.default_rng(7), 1, 3)[0] for agent in (live, bundled)]
    same_seed = [
        agent.step(observations, None, noise).actions for agent, noise in zip((live, bundled), plans, strict=True)
    ]
    assert np.array_equal(*same_seed)


def test_a_thousand_observations_are_compared():
    assert plan_parity.played_plans.func.__defaults__ == (1024,)


def test_a_bundle_that_plans_otherwise_is_not_written(trained, tmp_path):
    """Here the spec says another discount than the agent plans with."""
    cfg = CASES["mpc"]
    plan = plan_spec(cfg)
    other = plan.model_copy(update={"settings": {**plan.settings, "gamma": 0.5}})
    with pytest.raises(ParityFailed, match=r"^bundle: step \d+ (acts|remembers)"):
        ship(trained["mpc"], cfg, tmp_path / "b", plan=other)
    assert list(tmp_path.iterdir()) == []


# -- a bundle is a foreign file ---------------------------------------------------------------------------------------


def settings(section, **changes):
    return lambda spec: spec["plan"]["settings"][section].update(changes)


@pytest.mark.parametrize(
    ("algo", "change", "said"),
    [
        ("mpc", settings("planner", candidates=100_000, horizon=1000), "at most 100,000,000 are accepted"),
        ("mpc", settings("planner", candidates=10**9), "candidates"),
        ("mbmpc", settings("dynamics", particles=1024, members=64, hidden_sizes=[10**9]), "are accepted"),
        ("mbmpc", lambda spec: spec["plan"]["network"].update(hidden_sizes=[10**6]), "weights; at most"),
        ("mpc", settings("planner", kind="sorcery"), "unknown planner 'sorcery'"),
        ("mpc", settings("planner", horizon=4), "`derived` does not follow from its plan"),
        ("mpc", lambda spec: spec["plan"]["settings"].update(epochs=3), "plans by the settings"),
        ("mpc", lambda spec: spec.update(algo="ppo"), "ppo is no algorithm that plans"),
        ("mpc", lambda spec: spec["plan"]["world"].update(id="antigravity:Drone"), "no agent can be built from it"),
        ("diffusion", lambda spec: spec["plan"]["network"].update(hidden_sizes=[9]), "size mismatch"),
    ],
)
def test_b5_a_plan_cannot_ask_for_more_than_it_may(algo, change, said, copy):
    forged = forge(copy(algo), change)
    with pytest.raises(BundleError) as caught:
        forged.agent()
    assert "spec.json" in str(caught.value)
    assert said in str(caught.value) or (said == "size mismatch" and "the Model has" in str(caught.value))
    assert "antigravity" not in sys.modules  # what a file names is not imported


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda spec: spec["plan"].update(seed=-1), "plan.seed"),
        (lambda spec: spec["plan"].update(more=1), "plan.more"),
        (lambda spec: spec.pop("plan"), "either a model or a plan"),
        (lambda spec: spec["derived"].pop("noise"), "derived"),
        (lambda spec: spec["derived"]["noise"].update(shape=[2**40]), "impossible sizes"),
    ],
)
def test_a_forged_plan_is_refused_when_it_is_opened(change, said, copy):
    with pytest.raises(BundleError, match=r"spec\.json") as caught:
        forge(copy("mpc"), change)
    assert said in str(caught.value)


def test_a_part_of_another_package_is_not_imported_because_a_file_names_it(copy, monkeypatch, tmp_path):
    (tmp_path / "touchy_planner.py").write_text("raise RuntimeError('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    plugin = {"touchy": [Part("touchy_planner:Touchy", "touchy-parts")]}
    monkeypatch.setitem(PLANNERS.__dict__, "plugins", plugin)
    forged = forge(copy("mpc"), settings("planner", kind="touchy"))
    with pytest.raises(
        BundleError, match="of the package touchy-parts, and opening a bundle imports nothing; allow it with --import "
    ):
        forged.agent()
    assert "touchy_planner" not in sys.modules


# -- what a graph can hold --------------------------------------------------------------------------------------------


def test_a_plan_of_fixed_shapes_is_a_graph_for_other_programs(trained, tmp_path):
    bundle = ship(trained["mpc"], CASES["mpc"], tmp_path / "b", ("torchscript",))
    assert bundle.spec.formats == {"torchscript": "policy.ts"}
    assert bundle.spec.parity["formats"]["torchscript"]["ties"] == 0
    assert [port.name for port in bundle.spec.inputs] == ["observations", "carry_mean", "carry_elite", "noise"]
    assert [port.name for port in bundle.spec.outputs] == ["actions", "carry_mean_after", "carry_elite_after"]
    assert bundle.policy().acting == "planner"  # RLStudio itself plans from the weights


@pytest.mark.parametrize(
    ("algo", "planner", "reason"),
    [
        ("mpc", {"kind": "mcts", "simulations": 4}, "a TreeSearch decides from step to step"),
        ("diffusion", {"guidance": 0.1}, "a graph has no gradients"),
    ],
)
def test_what_no_graph_can_hold_is_refused_with_its_reason_and_the_bundle_still_opens(algo, planner, reason, tmp_path):
    cfg = tiny(algo, **({} if algo == "mpc" else NUMBERS), train={"planner": planner})
    agent = build_trainer(cfg, build_runtime(cfg)).agent
    with pytest.raises(Incompatible, match=reason):
        ship(agent, cfg, tmp_path / "graph", ("onnx",))
    bundle = ship(agent, cfg, tmp_path / "b")
    row = np.zeros(agent.spaces.observation.shape, np.float32)
    assert np.array_equal(bundle.policy().episode().act(row), agent.episode().act(row))


def test_an_exporter_that_cannot_follow_a_plan_is_one_line(trained, tmp_path, monkeypatch):
    def fails(exporter):
        raise ValueError("a long\nstory") from KeyError("No ONNX function found for cumprod")

    monkeypatch.setitem(graphs.FORMATS, "torchscript", ("policy.ts", fails))
    with pytest.raises(Incompatible, match=r"cannot follow this plan: 'No ONNX function found for cumprod'; use"):
        ship(trained["mpc"], CASES["mpc"], tmp_path / "b", ("torchscript",))


def test_a_graph_that_plans_otherwise_is_refused(trained, tmp_path, monkeypatch):
    file, make = graphs.FORMATS["torchscript"]

    def mutant(exporter):
        graph = make(exporter)
        return graph._replace(run=lambda inputs: {**(out := graph.run(inputs)), "actions": out["actions"] + 0.01})

    monkeypatch.setitem(graphs.FORMATS, "torchscript", (file, mutant))
    with pytest.raises(ParityFailed, match=r"^torchscript: plans otherwise than the agent for 32 of 32 observations"):
        ship(trained["mpc"], CASES["mpc"], tmp_path / "b", ("torchscript",))
    assert list(tmp_path.iterdir()) == []


# -- served, registered, refused at launch ----------------------------------------------------------------------------


def test_it_is_served_with_its_memory(trained, shipped):
    bundle = shipped["mpc"]
    served = ServedPolicy(bundle, max_batch=256)
    episode, observation, carry = trained["mpc"].episode(), [0.1, 0.2, 0.3], None
    for age in (1, 2):
        request = {"observations": observation} | ({} if carry is None else {"carry": carry})
        answer, _ = served.act(json.dumps(request).encode())
        assert np.array_equal(np.float32(answer["actions"]), episode.act(np.float32(observation)))
        carry = answer["carry"]
        assert carry["age"] == age
    space, ports = bundle.policy().spaces.observation, bundle.spec.carry_ports
    for wrong in (-1, 1.5, 10**12):
        with pytest.raises(BadInput, match=r"carry\.age: must be whole numbers"):
            parse_request({"observations": observation, "carry": {**carry, "age": wrong}}, space, ports, 1)


def test_a_run_registers_what_plans_and_its_version_acts(tmp_path):
    experiment = tiny_data("mpc", **NUMBERS, train={"epochs": 1, "steps_per_epoch": 16}, register={"model": "swing"})
    run = orchestrator.run(experiment, runs_dir=tmp_path / "runs", progress=False)
    releases = Releases(Workspace(tmp_path / "runs"))
    version = releases.find("swing:1")
    assert version.run_id == run.id
    row = np.float32([1.0, 0.0, 0.5])
    theirs = [
        agent.episode().act(row) for agent in (run.agent(), load_agent(run.path), releases.bundle(version).policy())
    ]
    assert np.array_equal(theirs[0], theirs[1])
    assert np.array_equal(theirs[0], theirs[2])
    promoted = releases.promote(version, Stage.STAGING, PromotionConfig())
    assert promoted.version.stage == Stage.STAGING


def test_register_with_what_cannot_ship_is_refused_at_launch(tmp_path):
    large = {"planner": {"candidates": 100_000, "horizon": 1000}}
    experiment = tiny_data("mpc", train=large, register={"model": "swing"})
    with pytest.raises(Incompatible, match=r"^register\.model: the agent of mpc cannot become a version: ") as caught:
        orchestrator.run(experiment, runs_dir=tmp_path / "runs", progress=False)
    assert "\n" not in str(caught.value)
    assert not list((tmp_path / "runs").glob("2*"))
