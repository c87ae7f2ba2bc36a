"""An experiment: everything that defines a run, from one YAML file and overrides.

Everything outside `train:` is validated before the algorithm's module (and with it torch) is imported; `train:` is then
validated by the Config of the chosen algorithm, so a new algorithm brings its own fields and its typos are found.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from pydantic import (
    Field,
    SerializeAsAny,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    field_validator,
    model_serializer,
    model_validator,
)
from pydantic_core import PydanticCustomError

from rlstudio.algos.parts.config import RunLength, TrainConfig
from rlstudio.core.config import Config, apply_overrides, config_hash, parse, to_yaml
from rlstudio.core.errors import ConfigError
from rlstudio.core.parsing.yaml_file import Document, read_file
from rlstudio.core.resources import ResourcesConfig
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.own_modules import module_name
from rlstudio.envs.seats.config import SelfPlayConfig
from rlstudio.experiment.config import agreement
from rlstudio.experiment.config.algorithm import algorithm, preferred_sections, train_section
from rlstudio.experiment.config.judging import GatesConfig, GuardrailsConfig
from rlstudio.experiment.config.length import latest_length, whole_epochs
from rlstudio.experiment.config.other_names import OTHER_NAMES
from rlstudio.experiment.config.presets import locate
from rlstudio.experiment.config.sections import (
    BufferConfig,
    CkptConfig,
    EvalConfig,
    PolicyConfig,
    RegisterConfig,
    RolloutConfig,
    RuntimeConfig,
    TrackingConfig,
)
from rlstudio.experiment.config.teams import (
    TeamConfig,
    TeamSettings,
    check_drawn_params,
    check_eval_team,
    check_opponents,
    check_settings,
    check_team_names,
    settled,
    team_settings,
)
from rlstudio.experiment.curriculum.config import CurriculumConfig, check_metrics
from rlstudio.experiment.folder.new_run import NewRun

LONGEST_NAME = 64
NAME = re.compile(rf"[A-Za-z0-9_][A-Za-z0-9_.-]{{0,{LONGEST_NAME - 1}}}")
READING_ORDER = ("name", "env", "policy", "train")
NOT_YET = object()


def _derived_name(data: dict[str, Any]) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]", "-", f"{data['policy'].algo}_{data['env'].id}")[:LONGEST_NAME]


def _nothing_given() -> Any:
    return {}


with warnings.catch_warnings():
    # Pydantic warns of the field `register`: the metaclass of its models has a method of that name for virtual
    # subclasses (`abc.ABCMeta.register`), which no config needs.
    warnings.filterwarnings("ignore", 'Field name "register" in "ExperimentConfig" shadows')

    class ExperimentConfig(Config):
        not_hashed: ClassVar[tuple[str, ...]] = (
            "name",
            "env.seed",
            "env.workers",
            "eval.videos",
            "rollout.backend",
            "tracking",
            "runtime",
            "resources",
            "ckpt",
            "register",
        )
        hashed_if_set: ClassVar[tuple[str, ...]] = ("teams", "self_play", "curriculum")
        usual: ClassVar[dict[str, type[Config]]] = {"train": TrainConfig}
        other_names: ClassVar[dict[str, tuple[str, ...]]] = OTHER_NAMES

        env: EnvConfig
        """The environment: which one, how many copies, which seed."""

        policy: PolicyConfig
        """The algorithm and the network."""

        name: str = Field(default_factory=_derived_name)
        """What the run is called; by default `<algo>_<env>`."""

        rollout: RolloutConfig = Field(default_factory=RolloutConfig)
        """How experience is collected: workers, and how long to wait for slow environments."""

        buffer: BufferConfig = Field(default_factory=BufferConfig)
        """The replay buffer of off-policy algorithms."""

        self_play: SelfPlayConfig | None = None
        """The opponents of a learner that plays one seat of a game; null: one policy plays all agents of the
        environment."""

        curriculum: CurriculumConfig | None = None
        """How environment parameters change during the run; null: they stay the same."""

        eval: EvalConfig = Field(default_factory=EvalConfig)
        """How often and how long to evaluate."""

        gates: GatesConfig = Field(default_factory=GatesConfig)
        """Quality rules on evaluation."""

        ckpt: CkptConfig = Field(default_factory=CkptConfig)
        """When to save and what to keep; never changes a result."""

        guardrails: GuardrailsConfig = Field(default_factory=GuardrailsConfig)
        """Safety rules on every step."""

        resources: ResourcesConfig = Field(default_factory=ResourcesConfig)
        """What the run requests from a scheduler: cores, GPUs, memory, priority."""

        runtime: RuntimeConfig = Field(default_factory=RuntimeConfig)
        """The device, threads and processes that the run uses."""

        tracking: TrackingConfig = Field(default_factory=TrackingConfig)
        """Where metrics go besides the run folder."""

        register: RegisterConfig = Field(default_factory=RegisterConfig)
        """Whether a completed run adds its policy to the registry."""

        teams: dict[str, TeamConfig] = Field(default_factory=dict, max_length=64)
        """Several policies that learn together, each for some of the agents; empty: all agents share one policy."""

        imports: tuple[str, ...] = Field((), max_length=32)
        """Modules named by `--import`, kept for resume; a file may not name any, because importing runs code."""

        # Last: its validator needs to know that every other section is valid.
        train: SerializeAsAny[RunLength] = Field(default_factory=_nothing_given)
        """How to learn; the fields depend on the algorithm."""

        @property
        def eval_env(self) -> EnvConfig:
            """The environments that judge the policy: those of `env` with the parameters of `eval.params`."""
            return self.env.evaluated(self.eval.params)

        @field_validator("name")
        @classmethod
        def _plain_name(cls, value: str) -> str:
            if not NAME.fullmatch(value):
                raise ValueError(f"use 1 to {LONGEST_NAME} letters, digits, _ - or . (and neither - nor . first)")
            if value == "last":
                raise ValueError("`last` already means the newest run; choose another name")
            return value

        @field_validator("teams")
        @classmethod
        def _plain_team_names(cls, value: dict[str, TeamConfig]) -> dict[str, TeamConfig]:
            check_team_names(value)
            return value

        @field_validator("imports")
        @classmethod
        def _module_names(cls, value: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(dict.fromkeys(map(module_name, value)))

        @field_validator("train", mode="before")
        @classmethod
        def _by_algorithm(cls, value: object, info: ValidationInfo) -> object:
            if value is NOT_YET or not cls.model_fields.keys() - {"train"} <= info.data.keys():
                raise PydanticCustomError("not_judged", "train is checked once the other sections are valid")
            config = train_section(info.data["policy"].algo)
            if info.context is not None and isinstance(value, Mapping):
                value = {name: entry for name, entry in value.items() if not info.context.forgives(config, name)}
            return config.model_validate({} if value is None else value)

        @model_validator(mode="before")
        @classmethod
        def _unknown_sections_first(cls, data: object) -> object:
            """Pydantic finds unknown keys last, which would be after the import of the algorithm."""
            if isinstance(data, Mapping) and set(data) - cls.model_fields.keys():
                return {**data, "train": NOT_YET}
            return data

        @model_serializer(mode="wrap")
        def _in_reading_order(self, handler: SerializerFunctionWrapHandler) -> dict[str, object]:
            data: dict[str, object] = handler(self)
            return {name: data[name] for name in READING_ORDER if name in data} | data

        @classmethod
        def section_type(cls, name: str, data: Mapping[str, Any]) -> Any:
            return train_section(data["policy"]["algo"]) if name == "train" else super().section_type(name, data)

        @model_validator(mode="after")
        def _agrees(self, info: ValidationInfo) -> ExperimentConfig:
            chosen = algorithm(self.policy.algo)
            if info.context is None:  # a stored config is complete and keeps what it says
                for name, section in preferred_sections(self, train_section(self.policy.algo)).items():
                    object.__setattr__(self, name, section)  # frozen from here on
            agreement.check_statements(self.policy, self.train, chosen)
            agreement.check_goal(self.gates, self.eval)
            agreement.check_metric_names(self.gates, self.guardrails, self.env.infos)
            check_eval_team(self.eval, self.teams)
            check_opponents(self.eval, self.self_play, self.teams)
            check_drawn_params(self.env, self.curriculum, self.teams)
            agreement.check_numerics(self.runtime)
            agreement.check_learners(self)
            agreement.check_workers(self.rollout, self.env, self.runtime)
            agreement.check_apart(self.rollout, teams=self.teams, self_play=self.self_play, curriculum=self.curriculum)
            if self.curriculum is not None:
                check_metrics(self.curriculum, self.env.infos)
            object.__setattr__(self, "train", whole_epochs(self.train, self.env.num_envs))
            agreement.check_layers(self.policy)
            agreement.check_batch(self.train, self.env.num_envs, self.buffer.capacity if chosen.off_policy else None)
            base = TeamSettings(self.policy, self.train)
            if info.context is None:
                object.__setattr__(
                    self, "teams", {name: settled(name, team, base) for name, team in self.teams.items()}
                )
            for name, team in self.teams.items():
                check_settings(name, team_settings(name, team, base), self.env.num_envs, self.buffer.capacity)
            return self

        def of_team(self, name: str) -> ExperimentConfig:
            """The experiment as one team of it learns."""
            policy, train = team_settings(name, self.teams[name], TeamSettings(self.policy, self.train))
            return self.model_copy(update={"policy": policy, "train": train, "teams": {}})


class _Stored:
    """For validators: the config was stored by a run. Retired fields are passed over, unless an override names one."""

    def __init__(self, document: Document) -> None:
        self._overrides = document.overrides

    def forgives(self, config: type[Config], field: str) -> bool:
        """Whether an unknown field of the section `train` is passed over."""
        return field in config.retired and ("train", field) not in self._overrides


def new_run(cfg: ExperimentConfig) -> NewRun:
    """What the folder and the store of a run begin with."""
    return NewRun(
        name=cfg.name,
        algo=cfg.policy.algo,
        env_id=cfg.env.id,
        config_yaml=to_yaml(cfg),
        config_hash=config_hash(cfg),
        seed=cfg.env.seed,
        total_epochs=cfg.train.epochs,
    )


def load_experiment(
    path: str | Path, overrides: Sequence[str] = (), *, imports: Sequence[str] = (), stored: bool = False
) -> ExperimentConfig:
    """Read an experiment from a file; `configs/...` that is not there means the one in the package.

    `stored`: the file is the config.yaml of a run, written by us, which may hold `imports` and retired fields.
    """
    return experiment_from(read_file(locate(path)), overrides=overrides, imports=imports, stored=stored)


def experiment_from(
    data: Document | Mapping[str, object],
    source: str = "experiment",
    overrides: Sequence[str] = (),
    *,
    imports: Sequence[str] = (),
    stored: bool = False,
) -> ExperimentConfig:
    """Validate an experiment given as plain data; `imports` are the modules of `--import`."""
    document = latest_length(apply_overrides(data, overrides, source))
    if isinstance(document.data, dict):
        given = ("imports",) in document.overrides or not stored
        if given and document.data.get("imports"):
            raise ConfigError(
                f"{document.where(('imports',))}: imports: only --import can name modules to run; remove it"
            )
        if imports:
            merged = [*(document.data.get("imports") or ()), *imports]
            document = Document(
                {**document.data, "imports": merged}, document.source, document.marks, document.overrides
            )
    return parse(ExperimentConfig, document, context=_Stored(document) if stored else None)
