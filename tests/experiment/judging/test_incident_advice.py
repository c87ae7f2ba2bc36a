"""What an incident says to change: settings of the run that were made worse than the defaults."""

from __future__ import annotations

import pytest

from rlstudio.algos.dqn import DQNConfig
from rlstudio.core.parsing.names import Rule
from rlstudio.experiment.config.judging import GuardrailsConfig
from rlstudio.experiment.judging.guardrails import Guardrails
from rlstudio.experiment.judging.incidents import Symptom, incident_of


@pytest.mark.parametrize("rule", ["q_scale", "weights"])
def test_a_target_that_is_copied_too_often_is_part_of_the_advice(rule: Rule) -> None:
    """`weights` is often the first to notice: with its lower learning rate alone the values ran away all the same."""
    usual = DQNConfig(epochs=10, steps_per_epoch=1000)
    copied = DQNConfig(epochs=10, steps_per_epoch=1000, lr=0.1, target_every=1)
    averaged = DQNConfig(epochs=10, steps_per_epoch=1000, lr=0.1, target_every=1, tau=0.01)
    rate = f"train.lr={usual.lr:.3g}"
    assert incident_of(Symptom(rule, ""), 0, copied).settings == (rate, f"train.target_every={usual.target_every}")
    assert incident_of(Symptom(rule, ""), 0, averaged).settings == (rate,)


def test_rewards_from_elsewhere_are_named_before_the_values_that_they_made() -> None:
    """SAC after a reward of 1e38 was to lower its learning rate, which does not help."""
    guardrails = Guardrails(GuardrailsConfig())
    outliers = Symptom("reward_outliers", "a reward of 1e+38", ("guardrails.reward_range=[-2, 2]",))
    for symptom in (outliers, Symptom("q_scale", "values of 3e+36", ("train.lr=3e-05",))):
        incident = incident_of(symptom, 8, None)
        guardrails._noticed |= {} if incident.rolls_back else {incident.rule: incident}
        guardrails.incident = incident if incident.rolls_back else None
    told = str(guardrails.end("why"))
    assert 0 < told.index("guardrails.reward_range=[-2, 2]") < told.index("train.lr=3e-05")
