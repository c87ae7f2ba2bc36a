"""MAPPO: a value that sees the state of the whole world, and a policy that does not."""

import numpy as np
import pytest
import torch

import support.worlds  # noqa: F401 - registers its toys
from rlstudio.core.errors import Incompatible
from rlstudio.core.spaces import Dict
from rlstudio.delivery.export import export_run
from rlstudio.experiment.judging.evaluate import evaluate
from rlstudio.experiment.run.load import load_agent
from rlstudio.experiment.training.build import build
from rlstudio.experiment.training.loop import Position, train
from rlstudio.models.config import NetworkConfig
from rlstudio.models.spec import model_fields
from support.experiments import tiny
from support.tiny_runs import run_to_the_end
from support.worlds import CHOICES, LENGTH

LUCK = "toys/Luck-v0"
CENTRAL = {"network": {"critic": "central", "hidden_sizes": [32]}}


def lucky(algo="ppo", **changes):
    sizes = {"epochs": 8, "steps_per_epoch": 512, "rollout_steps": 32, "lr": 1e-2}
    passes = {"passes": 8, "batch_size": 128} if algo == "ppo" else {}
    defaults = {"env": {"id": LUCK, "num_envs": 8}, "policy": CENTRAL, "train": {**sizes, **passes}}
    return tiny(algo, **{**defaults, **changes})


def trained(cfg):
    built = build(cfg)
    reports = [tick.report.metrics for tick in train(built.trainer, cfg.train, Position()) if tick.report]
    rollout = built.trainer.with_advantages(built.trainer.source.next())
    return built.trainer, reports[-1], float(rollout.advantages.std())


def test_the_advantage_is_of_the_action_where_the_value_knows_the_rest():
    """Returns differ by 2 * 3 * 8 between lucky and unlucky episodes, whatever is done. Values of what an agent sees
    are their mean, so their errors are of that size; with the state only the actions are left to explain."""
    central, known, narrow = trained(lucky())
    hidden = {"id": LUCK, "num_envs": 8, "kwargs": {"shows_state": False}}
    _, unknown, wide = trained(lucky(policy={"network": {"hidden_sizes": [32]}}, env=hidden))
    assert known["train/explained_variance"] > 0.95
    assert unknown["train/explained_variance"] < 0.2
    assert narrow < wide / 5
    played = evaluate(central.agent, lucky().env, episodes=40, seed=1)
    assert set(played.returns) == {LENGTH * (1 + 3.0), LENGTH * (1 - 3.0)}, "right in every step"


def test_acting_and_exporting_need_no_state(tmp_path):
    run = run_to_the_end(lucky(train={"epochs": 1, "steps_per_epoch": 64, "batch_size": 32}), tmp_path / "runs")
    agent = load_agent(run.path)
    assert agent.acting == "numpy"
    assert isinstance(agent.spaces.observation, Dict)
    assert [name for name, _ in agent.spaces.observation.items()] == ["numbers"]
    rows = np.eye(CHOICES, dtype=np.float32)
    actions = agent.act({"numbers": rows})
    assert agent.act({"numbers": rows, "state": np.full((CHOICES, 2), 9.0)}).tolist() == actions.tolist()
    bundle = export_run(run, tmp_path / "bundle", formats=("bundle",))
    assert [port.name for port in bundle.spec.inputs] == ["numbers"]
    assert bundle.agent().act({"numbers": rows}).tolist() == actions.tolist()


@pytest.mark.parametrize("algo", ["ppo", "a2c"])
def test_statistics_of_both_parts_are_those_of_the_rows(algo):
    policy = {"network": {**CENTRAL["network"], "normalize_observations": True}}
    built = build(lucky(algo, policy=policy))
    trainer = built.trainer
    trainer.train_step()
    rows, model = trainer.source.last.flatten().observations, trainer.model
    both = torch.cat((rows["numbers"], rows["state"]), -1).double()
    assert torch.allclose(model.encoder.normalizer.running_mean, both.mean(0))
    one, whole = model(rows), model.value(rows)
    assert torch.equal(one[1], whole)
    assert torch.allclose(model.policy({"numbers": rows["numbers"]}).logits, one[0].logits)
    kernel = trainer.agent.deciding({"numbers": rows["numbers"].numpy()})
    np.testing.assert_allclose(kernel, one[0].logits.detach().numpy(), atol=1e-5)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"env": {"id": "CartPole-v1"}}, r"policy\.network\.critic: a central one reads the entry 'state' of obs"),
        ({"policy": {"network": {"critic": "central", "memory": "gru"}}, "env": {"id": "CartPole-v1"}}, "no central"),
        ({"policy": {"network": {"critic": "central"}, "algo": "dqn"}, "train": {"steps_per_epoch": 64}},
         r"policy\.network\.critic: a q-value Model has no central one"),
    ],
)  # fmt: skip
def test_what_has_no_central_critic_is_refused(changes, reason):
    algo = changes.get("policy", {}).get("algo", "ppo")
    sizes = {"train": {"steps_per_epoch": 64}}
    with pytest.raises(Incompatible, match=reason):
        build(tiny(algo, **{"env": {"id": LUCK}, "policy": CENTRAL, **sizes, **changes}))


def test_older_descriptions_of_models_stay_as_they_were():
    assert "critic" not in model_fields("policy-value", NetworkConfig())["network"]
    assert model_fields("policy-value", NetworkConfig(critic="central"))["network"]["critic"] == "central"
