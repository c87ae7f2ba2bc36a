"""Runs in which several policies learn together, each for its own agents."""

import numpy as np
import pytest

import support.worlds  # noqa: F401 - registers its toys
from rlstudio.control.registry.promotion import PromotionConfig
from rlstudio.control.registry.records import Stage
from rlstudio.control.registry.releases import Releases
from rlstudio.control.workspace import Workspace
from rlstudio.core.config import config_hash, to_yaml
from rlstudio.core.errors import ConfigError, Incompatible, UserError
from rlstudio.core.parsing.yaml_file import read_text
from rlstudio.core.spaces import Discrete
from rlstudio.delivery.bundle import open_bundle
from rlstudio.delivery.export import export_run
from rlstudio.delivery.policies import policy_of_bundle
from rlstudio.delivery.shipping import check_ships
from rlstudio.experiment.analysis.replan import planning_agent
from rlstudio.experiment.config.experiment import experiment_from
from rlstudio.experiment.judging.evaluate import evaluate
from rlstudio.experiment.metrics.indexed.index import read_series
from rlstudio.experiment.run.load import load_agent, load_run
from rlstudio.experiment.run.pretrained import Pretrained, build_pretrained
from rlstudio.experiment.training.build import build
from rlstudio.experiment.training.loop import Position, train
from rlstudio.storage.state_tree import flatten
from support.cli_scenario import rlctl_in_process
from support.experiments import tiny
from support.sessions import start
from support.tiny_runs import assert_same_result, only_run, run_to_the_end
from support.worlds import LENGTH, Roles

ROLES = "toys/Roles-v0"
TEAMS = {"copiers": {"agents": ["copier"]}, "shifters": {"agents": ["shifter_*"]}}
DQN = {
    "policy": {"algo": "dqn"},
    "train": {"learning_starts": 200, "train_every": 24, "gradient_steps": 2, "batch_size": 64, "target_every": 20},
}


def teams(**shifters):
    return {**TEAMS, "shifters": {**TEAMS["shifters"], **shifters}}


def roles(**changes):
    sections = {"env": {"id": ROLES, "num_envs": 2}, "teams": TEAMS, "buffer": {"capacity": 512}}
    return tiny("ppo", **{**sections, **changes, "train": {"steps_per_epoch": 60, **changes.get("train", {})}})


@pytest.mark.parametrize("shifters", [{}, {**DQN, "train": {**DQN["train"], "lr": 1e-2}}], ids=["ppo", "dqn"])
def test_each_team_learns_what_only_its_own_agents_should_do(shifters):
    """One policy for all would be right for half of the agents at most."""
    sizes = {"epochs": 3, "steps_per_epoch": 768, "rollout_steps": 16, "batch_size": 64, "passes": 4}
    cfg = roles(
        env={"id": ROLES, "num_envs": 8},
        train={**sizes, "lr": 1e-2, "gamma": 0.5},
        policy={"network": {"hidden_sizes": [32]}},
        teams=teams(**shifters),
    )
    built = build(cfg)
    reports = [tick.report for tick in train(built.trainer, cfg.train, Position()) if tick.report]
    result = evaluate(built.trainer.agent, cfg.env, episodes=30, seed=1)
    assert result.summary.mean > 0.95 * LENGTH
    assert [report.env_steps for report in reports] == [768, 1536, 2304]
    metrics = reports[-1].metrics
    assert {"train/copiers/policy_loss", "train/shifters/loss", "train/shifters/lr"} <= metrics.keys()
    both = [metrics[f"rollout/{team}/return_mean"] for team in TEAMS]
    assert metrics["rollout/return_mean"] == pytest.approx((both[0] + 2 * both[1]) / 3)


def test_teams_learn_from_the_rows_of_their_own_agents_in_their_own_spaces():
    built = build(roles())
    trainers = built.trainer.trainers
    for name, columns, spaces in (
        ("copiers", [1, 4], Roles.agent_spaces[1]),
        ("shifters", [0, 2, 3, 5], Roles.agent_spaces[0]),
    ):
        trainer = trainers[name]
        assert trainer.agent.spaces == spaces
        rollout = trainer.source.next()
        assert rollout.observations.shape == (10, len(columns), *spaces.observation.shape)
        assert built.trainer.joint.members[name].columns.among(6).tolist() == columns
    assert built.trainer.joint.vector_steps == 10, "one team collected, the other found its rows"
    shown = trainers["copiers"].source.last.observations.argmax(-1)
    assert (shown == trainers["shifters"].source.last.observations[:, ::2, :4].argmax(-1)).all()


def test_teams_that_all_warm_up_report_nothing_but_episodes_until_one_learns():
    sizes = {"steps_per_epoch": 120, "learning_starts": 130, "train_every": 12}
    cfg = tiny("dqn", env={"id": ROLES}, train=sizes, teams=teams(train={"learning_starts": 250}))
    built = build(cfg)
    reports = [tick.report for tick in train(built.trainer, cfg.train, Position()) if tick.report]
    learned = [{name.split("/")[1] for name in report.metrics if name.endswith("/q")} for report in reports]
    assert learned == [set(), {"copiers"}, {"copiers", "shifters"}]
    assert [report.warming for report in reports] == [True, False, False]
    assert reports[0].metrics["rollout/episodes"] == 6 * (120 // 6 // LENGTH)


@pytest.mark.parametrize("shifters", [{}, {**DQN, "train": {**DQN["train"], "learning_starts": 62, "n_step": 2}}])
def test_a_run_of_teams_goes_on_bit_for_bit(shifters, tmp_path):
    """Also with rows that wait for a team which takes them at other moments."""
    sizes = {"epochs": 3, "rollout_steps": 5, "batch_size": 8, "normalize_rewards": True}
    cfg = roles(train=sizes, teams=teams(**shifters), eval={"every_epochs": 2, "episodes": 3, "final_episodes": 3})
    whole = run_to_the_end(cfg, tmp_path / "whole")
    with start(cfg, tmp_path / "left") as session:
        for number, _ in enumerate(session):
            if number == 4:  # in the midst of an epoch
                break
        joint = session.trainer.joint
        waiting = {name: joint.vector_steps - member.taken for name, member in joint.members.items()}
        assert waiting == {"copiers": 2 if shifters else 0, "shifters": 0}
    run_to_the_end(cfg, tmp_path / "left")
    assert_same_result(only_run(tmp_path / "left"), whole)


def test_replays_of_two_teams_share_no_segments(monkeypatch):
    """Segments of one name would be taken for each other when the run goes on."""
    monkeypatch.setattr("rlstudio.data.replay.buffer.SEGMENT_ROWS", 64)
    cfg = tiny("dqn", env={"id": ROLES}, train={"learning_starts": 300, "steps_per_epoch": 600}, teams=TEAMS)
    trainer = build(cfg).trainer
    for _ in train(trainer, cfg.train, Position()):
        pass
    names = [
        segment.name
        for segment in flatten(
            {name: part.state_dict() for name, part in trainer.stateful().items() if name.endswith("source")}
        ).segments
    ]
    assert {name.partition("/")[0] for name in names} == {"copiers", "shifters"}
    assert len({*names}) == len(names)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    changes = {"eval": {"every_epochs": 1, "episodes": 6, "final_episodes": 6, "team": "copiers"}}
    return run_to_the_end(roles(**changes), tmp_path_factory.mktemp("teams"))


def test_an_evaluation_says_what_each_team_and_each_agent_earned(run):
    series = read_series(run.path)
    for name in ("copiers", "shifters", "shifters/shifter_0", "shifters/shifter_1"):
        assert f"eval/{name}/return_mean" in series
    assert "eval/copiers/copier/return_mean" not in series, "it would say the same as that of its team"
    assert series["eval/return_mean"] == series["eval/copiers/return_mean"], "by eval.team"
    assert run.read_status().eval_return == series["eval/copiers/return_mean"][1][-1]
    result = evaluate(load_run(run).agent, load_run(run).cfg.env, episodes=7, seed=2)
    assert result.teams["copiers"] == {"copier": result.returns[1::3]}
    assert result.teams["shifters"] == {"shifter_0": result.returns[::3], "shifter_1": result.returns[2::3]}
    assert result.to_json()["teams"] == result.teams


def test_the_agents_of_a_run_act_by_name_and_by_team(run):
    agent = load_agent(run.path)
    shown = np.eye(4, dtype=np.float32)[2]
    given = {"copier": shown, "shifter_1": np.append(shown, np.float32(1))}
    actions = agent.act(given)
    assert actions["copier"] == agent.team("copiers").act(given["copier"])
    assert actions["shifter_1"] == agent.team("shifters").act(given["shifter_1"])
    assert agent.team("shifters").spaces.action == Discrete(3)
    with pytest.raises(UserError, match="act on observations by name: shifter_0, copier, shifter_1"):
        agent.act(shown)
    with pytest.raises(UserError, match="no team 'copier'; did you mean copiers"):
        agent.team("copier")


def test_a_bundle_is_the_policy_of_one_team(run, tmp_path):
    bundle = export_run(run, tmp_path / "shifters", team="shifters", formats=("bundle",))
    assert (bundle.spec.name, bundle.spec.origin.team) == ("tiny-shifters", "shifters")
    assert bundle.spec.evaluation is None, "the evaluation was judged by the other team"
    acts = open_bundle(bundle.path).agent()
    rows = np.random.default_rng(0).random((9, 5), np.float32)
    assert (acts.act(rows) == load_agent(run.path).team("shifters").act(rows)).all()
    with pytest.raises(
        Incompatible, match=r"has the teams copiers, shifters, and .* rlctl export RUN --team copiers -o DIR"
    ):
        export_run(run, tmp_path / "both", formats=("bundle",))
    with pytest.raises(UserError, match="--team shifter: the run has no such team; did you mean shifters"):
        export_run(run, tmp_path / "none", team="shifter", formats=("bundle",))
    with pytest.raises(Incompatible, match="the team shifters cannot play toys/Roles-v0 without the others"):
        policy_of_bundle(bundle)


def test_a_version_of_one_team_is_not_judged_by_playing_all_agents(run, tmp_path, monkeypatch):
    monkeypatch.setenv("RLSTUDIO_HOME", str(tmp_path / "state"))
    bundle = export_run(run, tmp_path / "shifters", team="shifters", formats=("bundle",))
    releases = Releases(Workspace(tmp_path / "runs"))
    version = releases.version(str(bundle.path), "shifting")
    with pytest.raises(Incompatible, match=r"toys/Roles-v0 without the others \(copiers\); .* --force REASON"):
        releases.promote(version, Stage.PRODUCTION, PromotionConfig(budget=40))
    released = releases.promote(version, Stage.PRODUCTION, PromotionConfig(), force="judged with its run")
    assert released.version.stage == Stage.PRODUCTION


def test_the_commands_of_the_page_work(run, tmp_path, capsys):
    rlctl, runs = rlctl_in_process(capsys), ("--runs-dir", run.path.parent)
    lines = rlctl("eval", run.id, "--episodes", 6, *runs).out.splitlines()
    assert [line.split()[0] for line in lines[-2:]] == ["copiers", "shifters"]
    assert "shifter_1" in lines[-1]
    assert rlctl("eval", run.id, "--episodes", 6, "--json", *runs).document["teams"].keys() == TEAMS.keys()
    result = rlctl("export", run.id, "--team", "copiers", "--format", "bundle", "-o", tmp_path / "copiers", *runs)
    assert "tiny-copiers" in result.out
    refused = rlctl("export", run.id, "--format", "bundle", "-o", tmp_path / "both", *runs)
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "--team copiers" in refused.err


def test_what_is_for_one_policy_is_refused_with_the_names_of_the_teams(run):
    cfg = roles(register={"model": "roles"})
    with pytest.raises(Incompatible, match=r"register\.model: the run has the teams copiers, shifters, and a version"):
        check_ships(cfg, load_agent(run.path))
    with pytest.raises(Incompatible, match="planner: the run has the teams copiers, shifters"):
        planning_agent(load_agent(run.path), cfg, ["kind=cem"])
    with pytest.raises(Incompatible, match="b: teams: the run would have the teams copiers, shifters"):
        build_pretrained(cfg, Pretrained("b", Roles.spaces, cfg.policy.network, {}))


def test_a_team_takes_what_it_does_not_say_from_the_experiment():
    cfg = roles(
        train={"lr": 0.02, "batch_size": 16},
        teams=teams(train={"lr": 0.05}, policy={"network": {"hidden_sizes": [4, 4]}}),
    )
    one, other = cfg.of_team("copiers"), cfg.of_team("shifters")
    assert (one.train.lr, other.train.lr, other.train.batch_size) == (0.02, 0.05, 16)
    assert (one.policy.network.hidden_sizes, other.policy.network.hidden_sizes) == ((8,), (4, 4))
    assert one.train.steps_per_epoch == other.train.steps_per_epoch == cfg.train.steps_per_epoch


def test_a_team_with_another_algorithm_has_its_defaults_and_keeps_them():
    settings = {"gamma": 0.9, "lr": 0.02, "epochs": 5}
    cfg = roles(train=settings, teams=teams(**DQN))
    dqn = cfg.of_team("shifters")
    assert (dqn.train.gamma, dqn.train.learning_starts) == (0.9, 200)
    assert dqn.train.lr == 1e-3, "that of the experiment is for ppo"
    assert dqn.policy.network.hidden_sizes == (8,), "set by the experiment"
    assert not dqn.policy.network.normalize_observations, "ppo's own default"
    again = experiment_from(read_text(to_yaml(cfg), "stored"), stored=True)
    assert again == cfg
    assert again.of_team("shifters") == dqn
    assert config_hash(again) == config_hash(cfg) != config_hash(roles(train=settings))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"env": {"id": "CartPole-v1"}}, "teams: CartPole-v1 has one agent; leave teams out"),
        ({"teams": {"all": {"agents": ["*"]}}}, r"teams\.all\.agents: the observation of shifter_0 is Box\(5,\)"),
        ({"teams": {**TEAMS, "more": {"agents": [1]}}}, r"teams\.more\.agents: copier is of the team copiers already"),
        ({"teams": {"copiers": {"agents": ["copier"]}}}, "teams: shifter_0, shifter_1 of toys/Roles-v0 has no team"),
        ({"teams": {**TEAMS, "more": {"agents": ["copyer"]}}}, "no agent 'copyer'; did you mean copier"),
        ({"teams": {**TEAMS, "more": {"agents": [3]}}}, r"no agent 3; there are: shifter_0, copier, shifter_1"),
        ({"teams": teams(train={"epochs": 2})}, r"teams\.shifters\.train\.epochs: the length of the run is"),
        ({"teams": teams(train={"lrr": 2})}, r"teams\.shifters\.train\.lrr: unknown key; did you mean lr"),
        ({"teams": teams(train={"lr": -1})}, r"teams\.shifters\.train\.lr: must be greater than 0"),
        ({"teams": teams(policy={"algo": "pppo"})}, r"teams\.shifters\.policy\.algo: unknown algo 'pppo'"),
        ({"teams": teams(policy={"algo": "sac"})}, r"teams\.shifters\.policy\.algo: sac needs Box actions"),
        ({"teams": {"a b": TEAMS["copiers"]}}, "'a b' is no name of a team"),
        ({"eval": {"team": "copier"}}, r"eval\.team: no team 'copier'; there are: copiers, shifters"),
        ({"teams": teams(train={"rollout_steps": 5, "batch_size": 8})}, r"shifters\.train\.rollout_steps: 5 steps"),
        ({"teams": teams(policy={"algo": "dqn"}, train={"train_every": 66, "learning_starts": 66})},
         r"teams\.shifters\.train\.train_every: 11 steps of each environment are more than the 10"),
        ({"teams": teams(policy={"network": {"memory": "gru"}})}, r"teams\.shifters\.policy\.network\.memory: "),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_in_one_line(changes, reason):
    with pytest.raises((ConfigError, Incompatible), match=reason) as refused:
        build(roles(**changes))
    assert "\n" not in str(refused.value)
