"""Every algorithm and every kind of observation ships as it was trained, in every format; what differs is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rlstudio.agents.rebuild import model_spec, rebuilt
from rlstudio.core.catalog import ALGOS
from rlstudio.core.errors import Incompatible, ParityFailed
from rlstudio.delivery import parity
from rlstudio.delivery.deployed import Deployed
from rlstudio.delivery.graphs import Exporter, module_run
from rlstudio.experiment.config.experiment import experiment_from
from rlstudio.experiment.training.build import build_runtime, build_trainer
from support.export_toys import CASES, EVERY_KIND, PLANNING, quick_registry, trained
from support.repetition import few

# Each exporter meets each kind of graph once in the quick tests, and all of them in the slow ones.
QUICK = {
    "onnx": {
        "ppo-MaskedParts-memory=gru-memory_size=8",
        "dqn-Image-stack-dueling=True",
        "qrdqn-Numbers-quantiles=7",
        "sac-Moves",
        "a2c-Mixed-memory=lstm-memory_size=8",
        "td3-Moves",
    },
    "torch-export": {
        "ppo-Parts-normalize_observations=True",
        "a2c-Moves-memory=gru-memory_size=8",
        "td3-MixedMoves",
    },
}


def with_id(case):
    return pytest.param(case, id=case.id)


@pytest.fixture(scope="module", autouse=True)
def _quick():
    with quick_registry():
        yield


@pytest.fixture(scope="module")
def recorded():
    kept = {}

    def record(case_id):
        if case_id not in kept:
            agent, cfg = trained(case_id)
            policy = Deployed(agent)
            rows = 264 if "Image" in case_id or "Mixed" in case_id else parity.ROWS  # CNNs take their time
            kept[case_id] = (agent, policy, parity.played_rows(agent, policy, cfg.env, seed=1, rows=rows))
        return kept[case_id]

    return record


def test_every_algorithm_is_here():
    assert {*(case.algo for case in CASES), *PLANNING} == set(ALGOS.names())


@pytest.mark.parametrize("algo", PLANNING)
def test_an_agent_that_plans_is_refused_by_name(algo):
    cfg = experiment_from({"env": {"id": "CartPole-v1"}, "policy": {"algo": algo}})
    agent = build_trainer(cfg, build_runtime(cfg)).agent
    with pytest.raises(Incompatible, match=r"a \w+ Model does not describe itself, so it cannot be built again"):
        model_spec(agent.model)


def test_every_kind_is_in_the_quick_cases():
    quick = [case for case in CASES if case.id in EVERY_KIND]
    assert len(quick) == len(EVERY_KIND)
    for kind in (lambda case: case.algo, lambda case: case.env, lambda case: case.network.get("memory")):
        assert {kind(case) for case in quick} == {kind(case) for case in CASES}


cases = pytest.mark.parametrize("case", few(map(with_id, CASES), lambda case: case.id in EVERY_KIND))


@cases
def test_the_module_and_torchscript_act_as_the_agent(case, recorded):
    agent, policy, rows = recorded(case.id)
    assert len(rows) >= 264
    runs = {"module": module_run(policy, policy), "torchscript": Exporter(policy).graph("torchscript").run}
    for name, run in runs.items():
        found = parity.check(name, run, policy, rows, agent.spaces)
        assert found.difference < 1e-5
        assert found.ties <= 3, case.id


def graphs():
    for format, quick in QUICK.items():
        assert quick <= {case.id for case in CASES}
        for case in CASES:
            marks = () if case.id in quick else (pytest.mark.slow,)
            yield pytest.param(case, format, id=f"{format}-{case.id}", marks=marks)


@pytest.mark.parametrize(("case", "format"), list(graphs()))
def test_the_graph_acts_as_the_agent(case, format, recorded):
    agent, policy, rows = recorded(case.id)
    graph = Exporter(policy).graph(format)
    assert parity.check(format, graph.run, policy, rows, agent.spaces).difference < 1e-5
    if format == "onnx":
        assert_plain(graph.data, policy)


def assert_plain(data, policy):
    import onnx

    model = onnx.load_from_string(data)
    onnx.checker.check_model(model)
    assert model.opset_import[0].version >= 18
    assert [value.name for value in model.graph.input] == [port.name for port in policy.inputs]
    assert [value.name for value in model.graph.output] == [port.name for port in policy.outputs]
    for value in (*model.graph.input, *model.graph.output):
        assert value.type.tensor_type.shape.dim[0].dim_param == "batch"
    assert not any(tensor.external_data for tensor in model.graph.initializer)
    assert b"rlstudio/" not in data  # no path of our source
    assert b".py" not in data


@cases
def test_the_agent_built_again_from_its_weights_is_the_same(case, recorded):
    agent, policy, rows = recorded(case.id)
    weights = {name: tensor.numpy().copy() for name, tensor in agent.model.state_dict().items()}
    again = rebuilt(agent.spaces, model_spec(agent.model), weights)
    shown = {port.part: rows.inputs[port.name][:8] for port in policy.observations}
    carry = {port.part: rows.inputs[port.name][:8] for port in policy.carry} or None
    acted = again.step(shown.get("", shown), carry)
    start = np.asarray(getattr(agent.spaces.action, "start", 0) or 0)
    assert np.array_equal(acted.actions + start if start.any() else acted.actions, rows.actions[:8])


# -- what is wrong is refused ------------------------------------------------------------------------------------------


def refusal(case_id, recorded, spoil):
    agent, _, rows = recorded(case_id)
    policy = Deployed(agent)
    spoil(policy)
    with pytest.raises(ParityFailed) as caught:
        parity.check("onnx", module_run(policy, policy), policy, rows, agent.spaces)
    return str(caught.value)


def test_a_wrong_weight(recorded):
    def spoil(policy):
        with torch.no_grad():
            policy.network.net.layers[0].weight[0, 0] += 0.5

    message = refusal("ppo-Numbers", recorded, spoil)
    assert message.startswith("onnx: row ")
    assert "nothing was exported" in message


def test_a_wrong_start_names_the_row_and_both_actions(recorded):
    def spoil(policy):
        policy.decide.start = 4

    message = refusal("ppo-Numbers", recorded, spoil)
    _, _, rows = recorded("ppo-Numbers")
    right = int(rows.actions[0])
    assert f"row 0 of {len(rows)} chooses {right - 1}, the agent {right}" in message


def test_a_missing_clip(recorded):
    def spoil(policy):
        policy.decide.low.fill_(-np.inf)
        policy.decide.high.fill_(np.inf)

    agent, _, rows = recorded("ppo-Moves-log_std_init=1.0")
    low, high = agent.spaces.action.bounds()
    assert ((rows.outputs < low) | (rows.outputs > high)).any()  # something to clip
    assert " acts " in refusal("ppo-Moves-log_std_init=1.0", recorded, spoil)


def test_a_missing_mask(recorded):
    def spoil(policy):
        policy.mask = None

    assert "chooses" in refusal("ppo-Masked", recorded, spoil)


def test_a_mask_of_zeros_forbids_nothing(recorded):
    agent, policy, rows = recorded("ppo-MaskedParts-memory=gru-memory_size=8")
    shown = {port.name: rows.inputs[port.name][:8].copy() for port in policy.inputs}
    shown["action_mask"][:, :3] = 0
    entries = {port.part: shown[port.name] for port in policy.observations}
    acted = agent.step(entries, {port.part: shown[port.name] for port in policy.carry})
    assert np.array_equal(module_run(policy, policy)(shown)["actions"], acted.actions + np.array([5, -1]))


def test_a_missing_normalizer(recorded):
    def spoil(policy):
        policy.network.encoder.moments = None

    refusal("ppo-Parts-normalize_observations=True", recorded, spoil)


def test_zeros_are_not_a_tie(recorded):
    """Undecided is what the agent was, not what a broken graph is."""

    def spoil(policy):
        with torch.no_grad():
            for parameter in policy.parameters():
                parameter.zero_()

    refusal("dqn-Numbers", recorded, spoil)


def test_not_a_number(recorded):
    def spoil(policy):
        with torch.no_grad():
            policy.network.net.layers[-1].bias.fill_(float("nan"))

    refusal("td3-Moves", recorded, spoil)


def test_a_memory_that_forgets(recorded):
    """Right from each recorded carry, and wrong once it goes by its own."""
    agent, policy, rows = recorded("a2c-Moves-memory=gru-memory_size=8")
    run = module_run(policy, policy)
    with pytest.raises(ParityFailed, match=r"remembers carry_h_after|by its own memory"):
        parity.check(
            "onnx",
            lambda inputs: {**(out := run(inputs)), "carry_h_after": out["carry_h_after"] * 0.5},
            policy,
            rows,
            agent.spaces,
        )


def test_another_dtype_of_actions(recorded):
    agent, policy, rows = recorded("ppo-Numbers")
    run = module_run(policy, policy)
    with pytest.raises(ParityFailed, match="int32"):
        parity.check(
            "onnx",
            lambda inputs: {**(out := run(inputs)), "actions": out["actions"].astype(np.int32)},
            policy,
            rows,
            agent.spaces,
        )


def test_states_vary(recorded):
    """A quarter of the actions is random: both the choices and the observations differ."""
    _, _, rows = recorded("ppo-Numbers")
    assert len(np.unique(rows.inputs["observations"], axis=0)) > 900
    assert rows.resets[1:].any()
