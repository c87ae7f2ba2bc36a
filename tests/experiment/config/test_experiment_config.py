"""ExperimentConfig: seed 001's file, validation before torch, cross-field checks, the hash, round trips."""

import re
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from rlstudio.algos.dqn import DQNConfig
from rlstudio.algos.parts.config import TrainConfig
from rlstudio.algos.ppo import PPOConfig
from rlstudio.core.catalog import ALGOS, Part
from rlstudio.core.config import config_hash, to_yaml
from rlstudio.core.errors import ConfigError, UserError
from rlstudio.core.parsing.yaml_file import read_text
from rlstudio.envs.config import EnvConfig
from rlstudio.experiment.config.algorithm import algorithm, train_section
from rlstudio.experiment.config.experiment import ExperimentConfig, experiment_from, load_experiment
from rlstudio.experiment.config.other_names import OTHER_NAMES
from rlstudio.experiment.config.presets import FOLDER
from rlstudio.experiment.config.sections import PolicyConfig
from support.examples import examples

CHARTER = """\
name: "ppo_cartpole_mvp"
env:
  id: "CartPole-v1"
  num_envs: 16
  seed: 123
policy:
  algo: "ppo"
  network: { hidden_sizes: [128, 128], activation: "tanh" }
  discrete: true
train:
  epochs: 50
  steps_per_epoch: 4096
  off_policy: false
  batch_size: 2048
  lr: 3e-4
  gamma: 0.99
"""


def charter(*overrides: str, **options) -> ExperimentConfig:
    return experiment_from(read_text(CHARTER, "f.yaml"), overrides=overrides, **options)


def problem(*overrides: str, text: str = CHARTER, **options) -> str:
    with pytest.raises(ConfigError) as caught:
        experiment_from(read_text(text, "f.yaml"), overrides=overrides, **options)
    return str(caught.value)


def test_the_charter_file_parses_exactly_as_written():
    assert (FOLDER / "ppo" / "cartpole_mvp.yaml").read_text() == CHARTER
    cfg = load_experiment(FOLDER / "ppo" / "cartpole_mvp.yaml")
    assert cfg == charter()
    assert isinstance(cfg.train, PPOConfig)
    assert (cfg.name, cfg.env.id, cfg.env.num_envs, cfg.env.seed) == ("ppo_cartpole_mvp", "CartPole-v1", 16, 123)
    assert (cfg.policy.algo, cfg.policy.network.hidden_sizes, cfg.policy.discrete) == ("ppo", (128, 128), True)
    assert (cfg.train.epochs, cfg.train.steps_per_epoch, cfg.train.batch_size) == (50, 4096, 2048)
    assert (cfg.train.lr, cfg.train.gamma, cfg.train.off_policy) == (0.0003, 0.99, False)


def test_little_is_needed():
    cfg = experiment_from({"env": {"id": "ALE/Pong-v5"}, "policy": {"algo": "ppo"}})
    assert cfg.name == "ppo_ALE-Pong-v5"
    assert cfg.train == PPOConfig()
    cfg = experiment_from({"policy": {"algo": "dqn"}}, overrides=["env.id=CartPole-v1", "eval="])
    assert cfg.train == DQNConfig()
    assert cfg.eval.every_epochs == 10


def test_sinks_are_one_line():
    assert charter("tracking={sinks: [tensorboard, csv]}").tracking.sinks == ("tensorboard", "csv")
    assert charter("tracking.sinks=[jsonl, csv, csv]").tracking.sinks == ("csv",)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("env.num_env=3", "env.num_env: unknown key; did you mean num_envs?"),
        ("trian.lr=3", "trian: unknown key; did you mean train?"),
        ("policy.algo=pppo", "policy.algo: unknown algo 'pppo'; did you mean ppo?"),
        (
            "policy.algo=magic",
            "policy.algo: unknown algo 'magic'; known: a2c, bc, diffusion, dqn, mbmpc, mpc, ppo, qrdqn, sac, td3",
        ),
        ("policy.network.activation=tahn", "got 'tahn'; did you mean tanh?"),
        ("policy.network=[64]", "policy.network: expected a section"),
        ("name=a b", "name: use 1 to 64 letters, digits, _ - or ."),
        ("name=../up", "name: use 1 to 64"),
        ("name=.hidden", "name: use 1 to 64"),
        ("name=", "name: expected text, got null"),
        ("name=last", "name: `last` already means the newest run"),
        (f"name={'x' * 65}", "name: use 1 to 64"),
        ("tracking.sinks=[tensorbord]", "tracking.sinks: unknown sink 'tensorbord'; did you mean tensorboard?"),
        (
            "tracking.sinks=[{kind: mlflow, uri: '127.0.0.1:5000'}]",
            "tracking.sinks[0].uri: expected the address of a server or database, such as http://127.0.0.1:5000",
        ),
        ("tracking.sinks=[{kind: mlflow, experiment: ''}]", "tracking.sinks[0].experiment: must have at least 1 char"),
        (
            "tracking.sinks=[{mode: online}]",
            "tracking.sinks[0].kind: required, but missing; add one of csv, mlflow, tensorboard, wandb",
        ),
        ("tracking.sinks=[5]", "tracking.sinks[0]: expected text or a section (`key: value` lines), got 5"),
        ("tracking.sinks=[{kind: wandb, project: a/b}]", "tracking.sinks[0].project: W&B takes no / in a name"),
        ("tracking.sinks=[{kind: wandb, project: ''}]", "tracking.sinks[0].project: must have at least 1"),
        ("runtime.device=gpu", "runtime.device: expected auto, cpu, cuda or cuda:N, got 'gpu'"),
        ("runtime.device=cuda:x", "runtime.device: expected auto"),
        ("guardrails.reward_range=[1, 0]", "guardrails.reward_range: the lowest reward 1.0 must be below"),
        ("guardrails.max_bad_rows=1.5", "guardrails.max_bad_rows: must be 1 or less"),
        ("buffer.capacity=1e10", "buffer.capacity: must be 1000000000 or less"),
        ("gates.min_return=high", "gates.min_return: expected a number, got 'high'"),
        ("ckpt.keep_last=0", "ckpt.keep_last: must be greater than 0"),
        ("eval.every_epochs=-1", "eval.every_epochs: must be 0 or more"),
        ("train.clipp=1", "train.clipp: unknown key; did you mean clip?"),
        ("train.learning_rate=1", "train.learning_rate: unknown key; here it is called train.lr"),
        ("learning_rate=1", "learning_rate: unknown key; here it is called train.lr"),
        ("train.n_steps=1", "train.n_steps: unknown key; here it is called train.rollout_steps"),
        ("policy.net_arch=[64]", "policy.net_arch: unknown key; here it is called policy.network.hidden_sizes"),
        ("train.target_update_interval=9", "train.target_update_interval: unknown key; known: "),  # not of PPO
        ("train.lr=.nan", "train.lr: must be finite"),
        ("train.epochs=1.5", "train.epochs: expected a whole number"),
        ("train=3", "train: expected a section"),
        ("train.off_policy=true", "train.off_policy: ppo is on-policy; leave it out or change policy.algo"),
        (
            "train.batch_size=5000",
            "train.batch_size: 5000 rows, but one rollout has only 4096; lower it to 4096 or less",
        ),
        ("policy.network.hidden_sizes=[100000, 100000]", "policy.network.hidden_sizes: 10,000,200,000 weights"),
    ],
)
def test_mistakes_are_told_in_one_line_at_the_override(override, message):
    reported = problem(override)
    assert message in reported
    assert reported.startswith(f"override {override[:50]}")
    assert "\n" not in reported


def test_mistakes_in_a_file_carry_line_and_column():
    assert (
        problem(text=CHARTER.replace("gamma:", "gama:")) == "f.yaml:16:3: train.gama: unknown key; did you mean gamma?"
    )
    both = CHARTER.replace("gamma:", "total_steps: 9\n  gamma:")
    assert problem(text=both).endswith("train.total_steps: epochs is given too; leave one of them out")


def test_statements_must_fit_the_algorithm():
    assert problem("policy.algo=dqn").startswith("f.yaml:13:3: train.off_policy: dqn is off-policy")
    reported = problem("policy.algo=dqn", "train.off_policy=true", "policy.discrete=false", "train.batch_size=64")
    assert reported.startswith("override policy.discrete=false: policy.discrete: dqn takes discrete actions only")
    assert charter("policy.discrete=false").policy.discrete is False  # ppo takes both
    reported = problem("policy.algo=dqn", "train.off_policy=true", "buffer.capacity=100")
    assert "train.batch_size: 2048 rows, but buffer.capacity has only 100" in reported


def test_problems_outside_train_come_first_and_without_torch():
    reported = problem("env.seed=x", "train.clipp=1", "zzz=1")
    assert "clipp" not in reported
    assert len(reported.splitlines()) == 2


def test_everything_outside_train_is_validated_without_torch(tmp_path):
    wrong = ["env.num_env=3", "policy.algo=pppo", "policy.discrete=maybe", "trian={}", "eval.episodes=0", "tracking=1"]
    code = (
        "import sys\n"
        "from rlstudio.core.errors import ConfigError\n"
        "from rlstudio.experiment.config.experiment import load_experiment\n"
        "for override in sys.argv[2:]:\n"
        "    try: load_experiment(sys.argv[1], [override])\n"
        "    except ConfigError as error: print(error)\n"
        "    else: sys.exit('accepted ' + override)\n"
        "assert not {'torch', 'gymnasium', 'numpy'} & set(sys.modules)\n"
    )
    path = FOLDER / "ppo" / "cartpole_mvp.yaml"
    command = [sys.executable, "-c", code, str(path), *wrong]
    child = subprocess.run(command, check=False, capture_output=True, text=True, cwd=tmp_path)
    assert (child.returncode, child.stderr) == (0, "")
    assert len(child.stdout.splitlines()) == len(wrong)


def test_only_the_command_line_names_modules_to_import():
    assert problem(text=CHARTER + "imports: [os]\n") == (
        "f.yaml:17:1: imports: only --import can name modules to run; remove it"
    )
    assert problem("imports=[os]").startswith("override imports=[os]: imports: only --import")
    assert problem("imports=[os]", stored=True).startswith("override imports=[os]: imports: only --import")
    cfg = charter(imports=["my_package.envs"])
    assert cfg.imports == ("my_package.envs",)
    stored = experiment_from(read_text(to_yaml(cfg), "config.yaml"), imports=["more"], stored=True)
    assert stored.imports == ("my_package.envs", "more")
    assert experiment_from(read_text(to_yaml(charter()), "config.yaml")) == charter()  # a copied run file launches
    for name in ("os; x", "a-b", "", "a."):
        assert "is not the name of a module" in problem(imports=[name])
    assert "'../x' is no Python file; name one that ends with .py, or a module like" in problem(imports=["../x"])


def test_python_builds_the_same_experiment():
    cfg = ExperimentConfig(
        env=EnvConfig(id="CartPole-v1"), policy=PolicyConfig(algo="ppo"), train=PPOConfig(lr=1e-3, rollout_steps=128)
    )
    assert cfg.train.lr == 1e-3
    assert cfg.name == "ppo_CartPole-v1"
    assert ExperimentConfig.model_validate(cfg) is cfg
    with pytest.raises(ValidationError):
        ExperimentConfig(env=EnvConfig(id="CartPole-v1"), policy=PolicyConfig(algo="ppo"), train=DQNConfig())


@pytest.mark.parametrize(
    "override",
    [
        "name=other",
        "env.seed=7",
        "tracking.sinks=[csv]",
        "runtime.threads=2",
        "runtime.device=cpu",
        "resources.cpus=4",
        "ckpt.every_seconds=1",
        "train.lr=0.0003",
        "train.epochs=5e1",
    ],
)
def test_the_hash_ignores_what_does_not_define_the_result(override):
    assert config_hash(charter(override)) == config_hash(charter())


@pytest.mark.parametrize(
    "override",
    ["train.lr=1e-3", "train.clip=0.3", "env.num_envs=32", "env.kwargs.g=1", "eval.episodes=5", "gates.min_return=475"],
)
def test_the_hash_changes_with_the_result(override):
    assert config_hash(charter(override)) != config_hash(charter())


def test_the_hash_ignores_the_order_of_keys_and_stays_the_same_everywhere():
    blocks = re.findall(r"^\w.*\n(?: .*\n)*", CHARTER, re.MULTILINE)
    shuffled = "".join(reversed(blocks))
    assert shuffled != CHARTER
    assert config_hash(experiment_from(read_text(shuffled, "f"))) == config_hash(charter())
    code = (
        "import sys\n"
        "from rlstudio.core.config import config_hash\n"
        "from rlstudio.experiment.config.experiment import load_experiment\n"
        "print(config_hash(load_experiment(sys.argv[1])))"
    )
    command = [sys.executable, "-c", code, str(FOLDER / "ppo" / "cartpole_mvp.yaml")]
    child = subprocess.run(command, check=True, capture_output=True, text=True, env={"PYTHONHASHSEED": "7"})
    assert child.stdout.strip() == config_hash(charter())


optional_floats = st.none() | st.floats(1e-6, 1e6)
experiments = st.fixed_dictionaries(
    {
        "name": st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,20}", fullmatch=True).filter(lambda name: name != "last"),
        "env": st.fixed_dictionaries(
            {
                "id": st.sampled_from(["CartPole-v1", "ALE/Pong-v5", "010", "3e-4", "on"]),
                "num_envs": st.sampled_from([1, 2, 8]),
                "seed": st.integers(0, 2**32 - 1),
                "kwargs": st.dictionaries(st.text(max_size=8), st.integers() | st.text(max_size=8), max_size=2),
            }
        ),
        "policy": st.fixed_dictionaries(
            {
                "algo": st.sampled_from(["ppo", "dqn"]),
                "network": st.fixed_dictionaries({"hidden_sizes": st.lists(st.integers(1, 512), max_size=4)}),
            }
        ),
        "train": st.fixed_dictionaries({"lr": st.floats(1e-8, 10.0), "gamma": st.floats(0, 1)}),
        "gates": st.fixed_dictionaries({"min_return": optional_floats, "max_std": optional_floats}),
        "guardrails": st.fixed_dictionaries({"reward_clip": optional_floats}),
    }
)


@examples(60)
@given(experiments)
def test_yaml_parses_back_to_an_equal_experiment_with_the_same_hash(data):
    cfg = experiment_from(data)
    again = experiment_from(read_text(to_yaml(cfg), "config.yaml"))
    assert again == cfg
    assert type(again.train) is type(cfg.train)
    assert config_hash(again) == config_hash(cfg)


def test_written_files_read_from_the_top():
    assert re.findall(r"^(\w+):", to_yaml(charter()), re.MULTILINE)[:4] == ["name", "env", "policy", "train"]


pieces = st.sampled_from(
    ["\t", ":", ": ", "- ", "{", "]", "'", "&a ", "*a", "!!x ", "#", "\n", "  ", "true", "1e999", "x", "~"]
)


@examples(200)
@given(st.lists(st.tuples(st.integers(0, len(CHARTER)), st.integers(0, 6), pieces), min_size=1, max_size=3))
def test_a_damaged_file_is_valid_or_refused_line_by_line(edits):
    text = CHARTER
    for start, length, piece in edits:
        text = text[:start] + piece + text[start + length :]
    try:
        experiment_from(read_text(text, "f.yaml"))
    except ConfigError as error:
        lines = str(error).split("\n")
    else:
        lines = []
    assert all(line.startswith("f.yaml") and line.isprintable() and len(line) < 400 for line in lines)


def test_importing_the_config_leaves_the_filters_of_warnings_alone() -> None:
    """And says nothing itself, though pydantic would rather have another name for `register`."""
    code = (
        "import warnings, rlstudio.core.config; before = list(warnings.filters);"
        "import rlstudio.experiment.config.experiment; assert warnings.filters == before, warnings.filters"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_names_of_other_libraries_lead_to_settings_that_exist():
    """Each of ours is there for at least one algorithm, and no foreign name is one of ours in the same place."""
    fields = {f"train.{name}" for algo in ALGOS.names() for name in train_section(algo).model_fields}
    schema = ExperimentConfig.model_fields
    for names in OTHER_NAMES.values():
        for name in names:
            section, *rest = name.split(".")
            if section == "train":
                assert name in fields
                continue
            kind: Any = schema[section].annotation
            for part in rest:
                kind = kind.model_fields[part].annotation
    assert not {f"train.{name}" for name in OTHER_NAMES} & fields


class Half:
    """Says not for which actions it is."""

    Config = TrainConfig
    off_policy = True


def test_a_class_that_is_no_algorithm_is_refused_in_one_line(monkeypatch):
    monkeypatch.setitem(ALGOS.builtin, "half", Part(f"{__name__}:Half", "tests"))
    with pytest.raises(UserError, match=r"^algo 'half': .*:Half must have a Config .* say off_policy and discrete$"):
        algorithm("half")
