"""The curriculum of a run: it is updated from the episodes that ended in an epoch, and the environments get its Draw.

Everything happens between two rollouts, in the training process. Evaluation never notices: its parameters are its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Protocol, TypeVar, runtime_checkable

from rlstudio.core.config import config_hash
from rlstudio.core.contracts import Runtime, State, Tally
from rlstudio.core.errors import ConfigError, Incompatible
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.params.draw import Component, Draw, draw_from
from rlstudio.envs.params.parameters import OPTIONS, ParamValue
from rlstudio.experiment.config.experiment import ExperimentConfig
from rlstudio.experiment.curriculum.changes import GROUP, CurriculumOutcome
from rlstudio.experiment.curriculum.config import CurriculumConfig
from rlstudio.experiment.curriculum.curriculum import new_curriculum
from rlstudio.experiment.curriculum.episodes import Episodes, Measure
from rlstudio.experiment.curriculum.sections import SUCCESS
from rlstudio.ops.statistics import mean_given

T = TypeVar("T")


@runtime_checkable
class Redrawn(Protocol):
    """A runtime whose environments can be given other parameters."""

    def set_draw(self, draw: Draw) -> None: ...


class RunCurriculum:
    def __init__(self, section: CurriculumConfig, env: Draw, planned_steps: int, runtime: Redrawn) -> None:
        """`env`: what the config draws parameters from that the curriculum does not set."""
        self._section = section
        self._runtime = runtime
        self._machine = new_curriculum(section, env, planned_steps)
        self._measure = Measure(section.success)
        self._identity = config_hash(section)
        self._began = 0  # environment steps of the run before it
        self._first = 0  # version of its first Draw: of what was drawn before it knows nothing
        self.history: list[State] = []  # every change, with its epoch and environment steps
        self._set_draw()

    def close_epoch(self, tally: Tally, epoch: int, env_steps: int) -> tuple[CurriculumOutcome, dict[str, float]]:
        """Take account of the episodes that ended in the epoch; what changed, and metrics."""
        episodes = self._own(tally)
        before = self._machine.draw.version
        outcome = self._machine.update(episodes, env_steps - self._began)
        when = {"epoch": epoch, "env_steps": env_steps}
        changes = tuple(change._replace(facts={**change.facts, **when}) for change in outcome.changes)
        self.history += [{"kind": change.kind, **change.facts} for change in changes]
        if self._machine.draw.version != before:
            self._set_draw()
        return outcome._replace(changes=changes), self._metrics(episodes)

    def _set_draw(self) -> None:
        draw = self._machine.draw
        self._runtime.set_draw(replace(draw, version=draw.version + self._first))

    def _own(self, tally: Tally) -> Episodes:
        """Those that ended and were drawn from it: where it began in the midst of a run, others were open."""
        drawn = tally.draws
        if drawn is None:
            return Episodes()
        own = [place for place, version in enumerate(drawn.versions) if version >= self._first]

        def of(values: Sequence[T]) -> list[T]:
            return [values[place] for place in own]

        infos = {key: of(values) for key, values in tally.infos.items()}
        versions = [version - self._first for version in of(drawn.versions)]
        return Episodes(of(tally.returns), of(tally.lengths), infos, of(drawn.components), versions)

    def _metrics(self, episodes: Episodes) -> dict[str, float]:
        measured = self._machine.metrics()
        if self._section.success is not None or any(metric == SUCCESS for _, metric in self._section.metrics()):
            measured["success"] = mean_given(self._measure(SUCCESS, episodes))
        return {f"{GROUP}{name}": value for name, value in measured.items()}

    def state_dict(self) -> State:
        return {
            "section": self._identity,
            "began": self._began,
            **({"first": self._first} if self._first else {}),
            "history": list(self.history),
            "machine": self._machine.state_dict(),
        }

    def load_state_dict(self, state: State, env_steps: int) -> None:
        """Where the run forked into another curriculum, or had none before, it begins here."""
        if state.get("section") != self._identity:
            self._began = env_steps
            self._first = int(state.get("first", 0)) + int(state.get("machine", {}).get("version", 0)) + 1
        else:
            self._began, self._first = int(state["began"]), int(state.get("first", 0))
            self.history = list(state["history"])
            self._machine.load_state_dict(state["machine"])
        self._set_draw()


def curriculum_of(cfg: ExperimentConfig, runtime: Runtime) -> RunCurriculum | None:
    """At its beginning; its first Draw is that of the environments from now on."""
    if cfg.curriculum is None:
        return None
    if not isinstance(runtime, Redrawn):
        raise Incompatible(
            "curriculum: where this run collects, parameters of environments cannot change; leave it out"
        )
    return RunCurriculum(cfg.curriculum, _env_draw(cfg.env), cfg.train.planned_steps, runtime)


def training_env(cfg: ExperimentConfig) -> EnvConfig:
    """The section `env` that training environments are made from: the parameters of a curriculum are drawn, by what it
    begins with. `env.params` may say of them what else there is to say: whether the agent sees them, for example."""
    if cfg.curriculum is None:
        return cfg.env
    if getattr(cfg.train, "dataset", None) is not None:
        raise ConfigError(
            f"curriculum: {cfg.policy.algo} learns from a dataset, whose episodes no curriculum changes; leave it out"
        )
    first = new_curriculum(cfg.curriculum, _env_draw(cfg.env), cfg.train.planned_steps).draw.components[0]
    params: dict[str, ParamValue] = dict(cfg.env.params)
    for name in cfg.curriculum.parameters:
        entry, drawn = params.get(name), first.params[name].to_json()
        options = {key: entry[key] for key in OPTIONS if key in entry} if isinstance(entry, dict) else {}
        if "every" in options:
            raise ConfigError(f"env.params: {name} is set by the curriculum for each episode; leave `every` out")
        params[name] = {**(drawn if isinstance(drawn, dict) else {"value": drawn}), **options}
    return cfg.env.model_copy(update={"params": params})


def _env_draw(env: EnvConfig) -> Draw:
    return draw_from(env.parameters) or Draw(0, (Component(1.0, {}),))


@contextmanager
def curriculum_named(cfg: ExperimentConfig) -> Iterator[None]:
    """What is wrong with parameters that only the curriculum sets is said of it, not of `env.params`."""
    try:
        yield
    except ConfigError as error:
        if cfg.curriculum is None or any(name in str(error) for name in cfg.env.params):
            raise
        raise ConfigError(str(error).replace("env.params", "curriculum")) from error
