"""Incidents: what the guardrails find, with the numbers, the likely cause and what to change.

A rule that finds something names itself, says what it measured and whether the run is to go back to its last good
point for it. What to change depends on the rule and on the run's own settings, and is put as settings to type.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import inf

from rlstudio.algos.parts.config import RunLength
from rlstudio.core.contracts import State
from rlstudio.core.parsing.names import Rule

OF_THE_ENVIRONMENT: frozenset[Rule] = frozenset({"frozen_env", "stuck_reward", "reward_scale", "broken_rows"})
"""Rules whose incidents are the environment's fault: a run that ends by them ends as `env_fault`."""

NOTICES: frozenset[Rule] = frozenset({"dead_value", "entropy", "reward_outliers", "skipped", "spike", "stuck_reward"})
"""Rules that only report: what they find was dealt with, may be meant, or is also seen where learning goes well: a goal
that is found for the first time, a policy that is certain, returns that are all the same, a reward that actions at
their bound do not change."""

CAUSES: dict[Rule, str] = {
    "not_finite": "an update was computed that is no number: a learning rate that is far too high, or broken memory",
    "skipped": "a few broken numbers, in a batch or in memory; nothing was learned from them",
    "spike": "the updates grow out of all proportion: a learning rate that is far too high, or broken memory",
    "weights": "the learning rate is far too high, or broken memory",
    "kl": "one update changes the policy beyond recognition: the learning rate is far too high",
    "q_scale": "the network believes in returns that its rewards cannot add up to: the learning rate is too high",
    "entropy": "the policy lost all of its variety at once: the learning rate is far too high",
    "dead_value": "the value network says the same of every state: the learning rate is far too high",
    "frozen_env": "the simulator behind this environment hangs or answers from a buffer that nobody fills",
    "stuck_reward": "the rewards of this environment are not computed any more",
    "reward_scale": "the rewards changed their unit",
    "reward_outliers": "a few rewards come from elsewhere, or are meant and rare",
    "broken_rows": "rows are repeated, left out or shifted: observations do not follow from those before them",
}


@dataclass(frozen=True)
class Symptom:
    """What a rule measured: the rule, its numbers in words, and the settings that answer it where the rule knows."""

    rule: Rule
    what: str
    settings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Incident:
    """A symptom as it is reported: in `events.jsonl`, in the run's last message and in the dashboard."""

    rule: Rule
    what: str
    cause: str
    advice: str
    settings: tuple[str, ...]
    gradient_steps: int

    @property
    def rolls_back(self) -> bool:
        return self.rule not in NOTICES

    def to_json(self) -> State:
        return {**asdict(self), "settings": list(self.settings)}

    @classmethod
    def from_json(cls, state: State) -> Incident:
        return cls(**{**state, "settings": tuple(state["settings"])})


def incident_of(symptom: Symptom, gradient_steps: int, train: RunLength | None) -> Incident:
    """`train`: the section of the run, whose settings are compared with the algorithm's defaults."""
    settings = symptom.settings or _settings(symptom.rule, train)
    advice = _advice(symptom.rule, settings)
    return Incident(symptom.rule, symptom.what, CAUSES[symptom.rule], advice, settings, gradient_steps)


def _settings(rule: Rule, train: RunLength | None) -> tuple[str, ...]:
    """A lower learning rate: the default, or where that is not lower a tenth. Q values also run away where the target
    network follows them too closely."""
    lr = getattr(train, "lr", None)
    if rule in OF_THE_ENVIRONMENT or train is None or lr is None:
        return ()
    usual = {name: info.default for name, info in type(train).model_fields.items()}
    settings = [f"train.lr={usual['lr'] if lr > 2 * usual['lr'] else lr / 10:.3g}"]
    is_hard_copy = getattr(train, "tau", 1.0) == 1.0  # averaged targets follow at every update, and slowly
    if is_hard_copy and getattr(train, "target_every", inf) < usual.get("target_every", 0):
        settings.append(f"train.target_every={usual['target_every']}")
    return tuple(settings)


def _advice(rule: Rule, settings: tuple[str, ...]) -> str:
    typed = " ".join(settings)
    if rule in OF_THE_ENVIRONMENT:
        return (
            "correct the environment, and try it out with: rlctl check;"
            f" if this is meant: guardrails.ignore=[{rule}]{f'; to train on without it: {typed}' if typed else ''}"
        )
    if rule == "skipped":
        return f"nothing, if it stays at that; else set {typed}"
    if rule == "reward_outliers":
        return f"leave such rows out with {typed}; if this is meant: guardrails.ignore=[{rule}]"
    return f"set {typed}" if typed else f"if this is meant: guardrails.ignore=[{rule}]"
