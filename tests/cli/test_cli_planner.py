"""`eval --planner`: a trained agent with and without a planner."""

from __future__ import annotations

import dataclasses
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from rlstudio.cli.app import main
from rlstudio.cli.commands import evaluate
from support.cli_scenario import TINY, Rlctl
from support.experiments import tiny_yaml
from support.tiny_runs import only_run

CUT_SHORT = "env.max_episode_steps=80"


@pytest.fixture
def trained(rlctl: Rlctl, short: Path, place: Path) -> Rlctl:
    """With a trained run in its folder."""
    shutil.copytree(short, place / "runs")
    return rlctl


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A runs folder with one run in it. Its episodes are cut early: a plan that holds the pole takes its time."""
    folder = tmp_path_factory.mktemp("short")
    (folder / "tiny.yaml").write_text(TINY)
    launch = ["launch", "-f", str(folder / "tiny.yaml"), CUT_SHORT, "-q"]
    assert main([*launch, "--runs-dir", str(folder / "runs")]) == 0
    return folder / "runs"


def test_both_are_told(trained: Rlctl) -> None:
    document = trained(
        "eval", "last", "--planner", "random_shooting", "planner.candidates=64", "--episodes", "2", "--json"
    )
    evaluated = document.document
    assert evaluated["planner"]["summary"]["mean"] > evaluated["summary"]["mean"]
    assert evaluated["planner"]["milliseconds_per_plan"] > 0
    assert evaluated["planner"]["milliseconds_without"] > 0
    assert evaluated["planner"]["plans_at_once"] == 2
    out = trained(
        "eval", "last", "--planner", "cem", "planner.horizon=4", "planner.candidates=16", "--episodes", "3"
    ).out
    assert "  cem " in out
    assert re.search(r"\n  time      [\d.]+ ms a plan, [\d.]+ ms without; 3 planned together\n", out)


@pytest.mark.parametrize(("kind", "hint"), [("mppi", "try --planner guided"), ("guided", "planner.horizon")])
def test_a_plan_that_does_worse_than_the_policy_says_what_to_try(
    trained: Rlctl, monkeypatch: pytest.MonkeyPatch, kind: str, hint: str
) -> None:
    """Newcomer S3: the first two commands of planning.md made PPO worse without a word."""
    played = evaluate._played
    returns = iter([500.0, 204.0])

    def as_reported(*args: Any) -> Any:
        """The returns of the policy alone, then of the planner."""
        done = played(*args)
        summary = dataclasses.replace(done.evaluation.summary, mean=next(returns))
        return done._replace(evaluation=dataclasses.replace(done.evaluation, summary=summary))

    monkeypatch.setattr(evaluate, "_played", as_reported)
    small = ("planner.horizon=2", "planner.candidates=4", "planner.iterations=1", "--episodes", "1")
    last = trained("eval", "last", "--planner", kind, *small).out.splitlines()[-1]
    assert last.startswith("  worse     than the policy alone: ")
    assert hint in last


@pytest.mark.parametrize(
    "arguments",
    [
        ["guided", "planner.horizon=4", "planner.candidates=4", "planner.iterations=1", "planner.reward=dense"],
        ["mcts", "planner.simulations=4", "planner.value=physics"],
    ],
)
def test_the_runs_own_policy_helps(trained: Rlctl, arguments: list[str]) -> None:
    evaluated = trained("eval", "last", "--planner", *arguments, "--episodes", "1", "--json").document
    assert evaluated["planner"]["summary"]["mean"] > evaluated["summary"]["mean"]


FIRST = ["planner.horizon=3", "planner.candidates=8", "planner.iterations=1", "--episodes", "1", "--json"]


@pytest.mark.parametrize("algo", ["a2c", "dqn", "sac", "td3", "bc"])
def test_a_run_of_every_kind_guides_a_plan(
    rlctl: Rlctl, place: Path, monkeypatch: pytest.MonkeyPatch, algo: str
) -> None:
    train: dict[str, object] = {"epochs": 1}
    if algo == "bc":
        monkeypatch.setenv("MINARI_DATASETS_PATH", str(place / "datasets"))
        assert rlctl("launch", "-f", "tiny.yaml", "-q").code == 0
        assert rlctl("record", "last", "--episodes", "2", "--dataset", "cart/tiny-v0").code == 0
        train["dataset"] = "cart/tiny-v0"
    (place / "run.yaml").write_text(tiny_yaml(algo, env={"max_episode_steps": 20}, train=train))
    assert rlctl("launch", "-f", "run.yaml", "-q").code == 0
    evaluated = rlctl("eval", "last", "--planner", "guided", *FIRST).document
    assert evaluated["planner"]["summary"]["n"] == 1
    assert evaluated["planner"]["milliseconds_per_plan"] > 0


def test_a_bundle_plans_as_its_run(rlctl: Rlctl) -> None:
    """Its value is of scaled rewards: the scale ships with it."""
    assert rlctl("launch", "-f", "tiny.yaml", "train.normalize_rewards=true", "-q").code == 0
    assert rlctl("export", "last", "--format", "bundle", "-o", "shipped").code == 0
    run, bundle = (rlctl("eval", what, "--planner", "cem", *FIRST).document["planner"] for what in ("last", "shipped"))
    assert bundle["returns"] == run["returns"]
    from rlstudio.delivery.bundle import open_bundle
    from rlstudio.experiment.run.load import load_run

    scale = open_bundle("shipped").spec.reward_scale
    assert scale == load_run(only_run(Path("runs"))).reward_scale
    assert scale > 1.0


def test_a_learned_model_plans_for_others(trained: Rlctl) -> None:
    small = ["train.epochs=2", "train.steps_per_epoch=60", "train.learning_starts=30", "train.train_every=10"]
    small += ["train.gradient_steps=2", "train.planner.candidates=16", "train.planner.horizon=4"]
    small += ["eval.final_episodes=1", CUT_SHORT]
    learner = trained("launch", "-f", "configs/mbmpc/cartpole.yaml", *small, "name=modeller", "-q").out.strip()
    first = ["planner.horizon=4", "planner.candidates=16", "--episodes", "1", "--json"]
    own = trained("eval", learner, "--planner", "mppi", *first).document
    assert own["planner"]["summary"]["mean"] > 0
    lent = trained("eval", "tiny", "--planner", "cem", "--dynamics", learner, *first).document
    assert lent["planner"]["milliseconds_per_plan"] > 0
    alone = trained("eval", "tiny", "--planner", "cem", "--dynamics", "tiny", *first)
    assert alone.code == 2
    assert "learned no model" in alone.err
    assert (
        trained(
            "launch", "-f", "tiny.yaml", "env.kwargs={sutton_barto_reward: true}", CUT_SHORT, "name=other", "-q"
        ).code
        == 0
    )
    other = trained("eval", "other", "--planner", "cem", "--dynamics", learner, *first)
    assert other.code == 2
    assert (
        "--dynamics: that run was trained in another world: its env.kwargs is {}, here {'sutton_barto_reward': True}"
        in other.err
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--dynamics", "last"], "only a planner needs a model"),
        (["planner.horizon=3"], "only settings of a planner fit"),
        (["--planner", "cem", "train.lr=1"], "only settings of a planner fit"),
        (["--planner", "mpi"], "did you mean mppi"),
        (["--planner", "cem", "planner.horizn=3"], "did you mean horizon"),
        (["--planner", "mppi", "planner.kind=cem"], "planner.kind: the kind is given by --planner mppi already"),
        (["--planner", "mppi", "planner.horizn=5"], "planner.horizn: unknown key; did you mean horizon?"),
        (["--planner", "mpppi"], "planner.kind: "),
    ],
)
def test_mistakes_are_one_line(trained: Rlctl, arguments: list[str], message: str) -> None:
    result = trained("eval", "last", *arguments)
    assert result.code == 2
    assert message in result.err
    assert result.err.count("\n") == 1


@pytest.mark.parametrize("algo", ["sac", "td3"])
def test_the_value_of_a_critic_comes_from_the_checkpoint_and_not_from_a_bundle(
    rlctl: Rlctl, place: Path, algo: str
) -> None:
    from rlstudio.experiment.analysis.replan import planning_agent
    from rlstudio.experiment.run.load import load_run

    network = {"activation": "tanh"}  # whose values differ enough after one epoch for another plan
    sections = {"env": {"max_episode_steps": 40}, "train": {"epochs": 1}, "policy": {"network": network}}
    (place / "critic.yaml").write_text(tiny_yaml(algo, **sections))
    assert rlctl("launch", "-f", "critic.yaml", "-q").code == 0
    loaded = load_run(only_run(Path("runs")))
    settings = ["kind=cem", "horizon=3", "candidates=8", "iterations=1"]
    score = planning_agent(loaded.agent, loaded.cfg, settings, learned=loaded.learned).score
    assert score.value is not None
    assert torch.isfinite(score.value(torch.zeros(2, 3))).all()
    with_value, without = (
        rlctl("eval", "last", "--planner", "cem", f"planner.value={value}", *FIRST).document["planner"]["summary"]
        for value in ("own", "none")
    )
    assert with_value["mean"] != without["mean"]
    assert rlctl("export", "last", "-o", "shipped", "--format", "bundle").code == 0
    shipped = rlctl("eval", "shipped", "--planner", "cem", *FIRST).document["planner"]["summary"]
    assert shipped["mean"] == without["mean"]


def test_a_value_of_scaled_rewards_is_scaled_back(rlctl: Rlctl) -> None:
    from rlstudio.experiment.analysis.replan import own_value
    from rlstudio.experiment.run.load import load_run

    assert rlctl("launch", "-f", "tiny.yaml", "train.normalize_rewards=true", "-q").code == 0
    loaded = load_run(only_run(Path("runs")))
    assert loaded.reward_scale > 1.0
    seen = torch.zeros(1, 4)
    model, learned = loaded.agent.model, loaded.learned
    own, scaled = own_value(model, learned), own_value(model, learned, loaded.reward_scale)
    assert own is not None
    assert scaled is not None
    torch.testing.assert_close(scaled(seen), own(seen) * loaded.reward_scale)


def test_equations_know_nothing_of_wrappers(rlctl: Rlctl) -> None:
    assert rlctl("launch", "-f", "tiny.yaml", "env.wrappers=[TimeAwareObservation]", "-q").code == 0
    result = rlctl("eval", "last", "--planner", "cem", "--episodes", "1")
    assert result.code == 2
    assert "know nothing of env.wrappers (TimeAwareObservation)" in result.err


def test_equations_know_nothing_of_arguments(rlctl: Rlctl) -> None:
    assert rlctl("launch", "-f", "tiny.yaml", "env.id=Pendulum-v1", "env.kwargs={g: 9.81}", "-q").code == 0
    result = rlctl("eval", "last", "--planner", "cem", "--episodes", "1")
    assert result.code == 2
    assert "the equations of Pendulum-v1 know nothing of env.kwargs (g)" in result.err
    assert result.err.count("\n") == 1
