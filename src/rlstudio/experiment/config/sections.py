"""The sections of an experiment beside `env`, `policy.network` and `train`, with their defaults. Free of torch."""

from __future__ import annotations

import json
import re
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt, field_validator, model_validator

from rlstudio.core.catalog import ALGOS, LANES, SINKS, Catalog
from rlstudio.core.config import Config, refuse
from rlstudio.core.parsing.names import MODEL_NAME
from rlstudio.core.parts import PartConfig, known_part
from rlstudio.envs.params.parameters import ParamValue
from rlstudio.envs.params.section import fit_params
from rlstudio.models.config import NetworkConfig

Share = Annotated[float, Field(ge=0, le=1)]


class PolicyConfig(Config):
    algo: str
    """Name of the algorithm (`rlctl algos` lists them)."""

    network: NetworkConfig = Field(default_factory=NetworkConfig)
    """The networks of the policy."""

    discrete: bool | None = None
    """States whether actions are discrete; refused if that contradicts the algorithm or the environment. It changes
    nothing."""

    @field_validator("algo")
    @classmethod
    def _known(cls, value: str) -> str:
        return known_part(ALGOS, value)


class RolloutConfig(Config):
    hashed_if_set: ClassVar[tuple[str, ...]] = ("hang_timeout", "workers", "backend", "mode", "max_staleness")

    workers: PositiveInt | None = Field(None, le=65536)
    """Rollout workers that act at the same time, each in its share of the copies, for environments that are slow, may
    crash or run on other machines; null: the training process steps all copies itself."""

    backend: Literal["auto", "local", "process", "ray"] = "auto"
    """Where the workers run. `local`: one after the other in the training process; `process`: in processes on this
    machine; `ray`: as Ray actors; `auto`: wherever a short measurement is fastest. All give the same bits."""

    mode: Literal["sync", "async"] = "sync"
    """`sync`: every rollout is collected with the newest weights, and the order in which workers finish does not
    matter. `async`: workers keep collecting while the run learns, with weights that are a few versions old."""

    max_staleness: PositiveInt | None = Field(None, le=64)
    """With `async`: by how many versions the weights that collected a row may be older than those that learn from it;
    null: 1 if every update needs fresh rollouts, 16 with a replay buffer."""

    step_timeout: PositiveFloat = Field(60.0, le=86_400)
    """Seconds after which one call of an environment counts as hung. A worker process is then replaced; a hang in the
    training process is reported with its place in the code."""

    hang_timeout: PositiveFloat | None = Field(None, le=86_400)
    """Seconds after which one hung call in the training process ends the run; null: the run waits."""

    max_restarts: NonNegativeInt = Field(3, le=1000)
    """Times one environment may be restarted before the run fails."""


class BufferConfig(Config):
    hashed_if_set: ClassVar[tuple[str, ...]] = ("quarantine",)

    capacity: PositiveInt = Field(100_000, le=10**9)
    """Transitions that the replay buffer of an off-policy algorithm holds."""

    quarantine: bool = True
    """Compare the rows of each worker or environment with those of at least two others, and do not learn from one whose
    rows are repeated, bad, or do not follow from its actions as they do elsewhere."""


def _final_episodes(data: dict[str, Any]) -> int:
    """The result rests on no fewer episodes than an evaluation on the way to it."""
    return max(20, int(data.get("episodes", 0)))


class EvalConfig(Config):
    hashed_if_set: ClassVar[tuple[str, ...]] = ("at_start", "team", "opponents", "params")

    at_start: bool = True
    """Also evaluate before the first step, for the first point of the curve; only if there are evaluations during
    training."""

    every_epochs: NonNegativeInt = Field(10, le=10**9)
    """Epochs between two evaluations; 0: only after training."""

    episodes: PositiveInt = Field(10, le=100_000)
    """Episodes of an evaluation during training."""

    final_episodes: PositiveInt = Field(default_factory=_final_episodes, le=100_000)
    """Episodes of the evaluation after training; by default 20, or `episodes` if that is more."""

    team: str | None = None
    """The team whose returns choose the best checkpoint and are judged by the gates; null: the returns of all
    agents."""

    opponents: tuple[str, ...] = Field((), max_length=16)
    """Who plays the other seats of a multi-agent environment, for example [random, minimax]: each in turn and from
    every seat, with metrics `eval/NAME/win_rate`. Empty: the evaluated policy plays all seats."""

    videos: NonNegativeInt = Field(0, le=10**6)
    """For how many of the newest evaluations films of the best and the worst episode are kept; 0: none."""

    params: dict[str, ParamValue] = {}
    """Parameters of the evaluation environments, as in env.params: numbers, or what each episode draws them from. A
    parameter that is not named here has its number from env.params; if env.params draws it, it has the environment's
    own value."""

    @field_validator("params", mode="before")
    @classmethod
    def _readable_params(cls, value: object) -> object:
        return fit_params(value)

    @model_validator(mode="after")
    def _films_its_own_games(self) -> EvalConfig:
        if self.videos and self.opponents:
            refuse(("videos",), "a film has no opponents of eval.opponents in it; leave one of the two out")
        return self


class CkptConfig(Config):
    every_seconds: PositiveFloat | None = 30.0
    """Seconds between two checkpoints; null: not by time."""

    every_epochs: PositiveInt | None = None
    """Epochs between two checkpoints; null: not by epochs."""

    keep_last: PositiveInt = Field(2, le=10_000)
    """How many of the newest checkpoints are kept."""

    keep_best: bool = True
    """Keep the checkpoint of the best evaluation too."""

    history: PositiveInt | None = None
    """Keep a checkpoint every this many epochs until the run is removed, so that `rlctl rewind` reaches any step
    quickly; null: none."""


class RegisterConfig(Config):
    model: Annotated[str, Field(pattern=f"^{MODEL_NAME}$")] | None = None
    """The model in the registry that gets the policy as its next version when the run completes; null: none."""


class RuntimeConfig(Config):
    device: str = "auto"
    """`auto`, `cpu`, `cuda` or `cuda:N`."""

    threads: PositiveInt = Field(1, le=1024)
    """Threads per operation; small networks are fastest with one."""

    lane: str = "eager"
    """How the algorithm is computed: `eager` runs its file operation by operation."""

    numerics: Literal["native", "portable"] = "native"
    """`portable`: the same bits on every x86-64 processor, but slower, because the libraries may not choose code for
    the processor they find."""

    learners: PositiveInt = Field(1, le=1024)
    """Processes that learn together, each from its share of the environments; with torchrun, as many as it starts."""

    ranks: Literal["process", "ray"] = "process"
    """Where the other learners run: in processes on this machine, or on nodes of the Ray cluster that RAY_ADDRESS
    names."""

    trace: bool = False
    """Record how every process spends its time, in `artifacts/trace.json`, for Perfetto or chrome://tracing."""

    backend: Literal["gloo", "nccl"] = "gloo"
    """What carries the gradients of several learners: `gloo` on CPUs, `nccl` between GPUs."""

    @field_validator("device")
    @classmethod
    def _known_device(cls, value: str) -> str:
        if not re.fullmatch(r"auto|cpu|cuda(:[0-9]{1,3})?", value):
            raise ValueError(f"expected auto, cpu, cuda or cuda:N, got {value!a}")
        return value

    @field_validator("lane")
    @classmethod
    def _known_lane(cls, value: str) -> str:
        return known_part(LANES, value)


INSIDE = ("csv", "tensorboard")
"""Sinks that write into the folder of the run and nowhere else."""


class SinkConfig(PartConfig):
    """A sink of another package extends this with its own settings."""

    parts: ClassVar[Catalog] = SINKS
    configured: ClassVar[frozenset[str]] = frozenset({"mlflow", "wandb"})

    kind: str
    """`csv`, `tensorboard`, `mlflow`, `wandb`, or a sink of another package (`rlctl plugins`)."""

    @classmethod
    def of_kind(cls, kind: str) -> SinkConfig:
        """The settings of a kind of sink, with their defaults."""
        cfg = cls.config_of(kind)(kind=kind)
        assert isinstance(cfg, SinkConfig)
        return cfg

    def destination(self) -> str:
        """Names the place that a run is sent to: by default all settings together."""
        return json.dumps(self.model_dump(mode="json", exclude={"kind"}), sort_keys=True)


class TrackingConfig(Config):
    sinks: tuple[str | SinkConfig, ...] = Field((), max_length=16)
    """Where metrics go besides the run's own JSONL file, for example [tensorboard, csv]; one that has settings is
    written as {kind: NAME, KEY: VALUE}."""

    finish_seconds: PositiveFloat = Field(30.0, le=3600)
    """Seconds that the end of a run waits for sinks that are behind; `rlctl send` sends the rest."""

    rotate_mb: PositiveInt = Field(64, le=10**6)
    """Size in MB at which the metrics continue in a new file."""

    @field_validator("sinks")
    @classmethod
    def _known_sinks(cls, value: tuple[str | SinkConfig, ...]) -> tuple[str | SinkConfig, ...]:
        chosen: dict[str, str | SinkConfig] = {}
        for sink in value:
            kind = sink.kind if isinstance(sink, SinkConfig) else sink
            if chosen.setdefault(kind, sink) != sink:
                raise ValueError(f"{kind} is listed twice; keep one")
        chosen.pop("jsonl", None)  # always on
        return tuple(sink if isinstance(sink, SinkConfig) else known_part(SINKS, sink) for sink in chosen.values())

    def inside_sinks(self) -> list[SinkConfig]:
        return [sink for sink in self.chosen_sinks() if sink.kind in INSIDE]

    def outside_sinks(self) -> list[SinkConfig]:
        return [sink for sink in self.chosen_sinks() if sink.kind not in INSIDE]

    def chosen_sinks(self) -> list[SinkConfig]:
        """Each with its settings, the default ones where none are given."""
        return [sink if isinstance(sink, SinkConfig) else SinkConfig.of_kind(sink) for sink in self.sinks]
