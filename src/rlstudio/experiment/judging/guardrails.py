"""Guardrails: safety rules on every update and on what every epoch reports.

The row guard gives bad rows no weight and the optimizer skips bad steps, on the device, as they happen. `follow` looks
at the metrics of the updates and at the newest rows, every `LOOK` updates, and gives each incident once. `judge`
decides once per epoch. Too many bad rows are the environment's fault and end the run, unless the policy itself gave
actions that are not finite; those, too many skipped steps, non-finite weights, a metric beyond its limit or an incident
mean that training has diverged, and the session rolls back.

What was seen so far is kept in the `meta` of a checkpoint: a run that goes on finds the same, and the state that is
hashed holds no more than learning needs.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, isfinite

from rlstudio.algos.parts.config import RunLength
from rlstudio.core.contracts import LimitsGradients, Metrics, State, Trainer, WeighsItself
from rlstudio.core.errors import ConfigError, Diverged, EnvFault, RLStudioError, suggest
from rlstudio.core.own_metrics import GROUP
from rlstudio.core.parsing.names import Rule
from rlstudio.core.spaces import Discrete, MultiDiscrete
from rlstudio.experiment.config.judging import GuardrailsConfig
from rlstudio.experiment.judging.experience_watch import ExperienceWatch
from rlstudio.experiment.judging.incidents import OF_THE_ENVIRONMENT, Incident, Symptom, incident_of
from rlstudio.experiment.judging.update_watch import UpdateWatch
from rlstudio.experiment.training.position import Position, Report, table_of

LOOK = 8
"""Updates between two looks; a symptom is at most as old."""

WEIGH, AT_FIRST = 64, 8
"""Updates between two looks at the weights, and looks at the beginning that all include them."""


SUSPECTED: tuple[Rule, ...] = ("reward_outliers", "entropy", "dead_value", "spike")
"""Of what is only reported that which a run may diverge by, the likeliest first."""


class Guardrails:
    def __init__(self, cfg: GuardrailsConfig, train: RunLength | None = None) -> None:
        """`train`: of the run, whose discount and learning rate the rules compare with."""
        self.cfg = cfg
        self.incident: Incident | None = None  # for which the run rolls back once its epoch is over
        self._train = train
        self._updates = UpdateWatch(getattr(train, "gamma", None))
        self._experience = ExperienceWatch()
        self._names: list[str] = []  # the metrics of the updates that were not looked at yet,
        self._rows: list[Metrics] = []  # and their values,
        self._earlier: list[list[float]] = []  # before them those that a checkpoint brought
        self._looked_at = self._weighed_at = 0  # gradient steps
        self._looks = 0
        self._skips = 0.0  # updates that were left out until then
        self._reported: list[str] = []
        self._noticed: dict[Rule, Incident] = {}  # what was only reported, and may be why the run diverges later

    def follow(self, trainer: Trainer, position: Position, ends_epoch: bool) -> list[Incident]:
        """One more train step; the incidents that came with it, each rule once. Nothing is left to be looked at where
        an epoch ends: it may become a point that the run goes back to."""
        metrics, incidents = position.latest, []
        if metrics is None:
            return []
        if self._names != position.names:
            incidents = self._look(trainer, False)
            self._names = position.names
        self._rows.append(metrics)
        if (
            ends_epoch
            or len(self._earlier) + len(self._rows) >= LOOK
            or trainer.gradient_steps - self._looked_at >= LOOK
        ):
            incidents += self._look(trainer, ends_epoch)
        return incidents

    def _look(self, trainer: Trainer, ends_epoch: bool) -> list[Incident]:
        rows = self._values()
        if not rows:
            return []
        self._rows, self._earlier, self._looked_at = [], [], trainer.gradient_steps
        largest = self._experience.largest_reward
        symptoms = list(self._experience.look(trainer.source))
        if self._experience.largest_reward > 2 * largest:
            self._updates.begin_anew()
        self._updates.choices = isinstance(trainer.agent.spaces.action, Discrete | MultiDiscrete)
        of_updates = self._skipped(trainer)
        self._looks += 1
        if ends_epoch or self._looks <= AT_FIRST or trainer.gradient_steps - self._weighed_at >= WEIGH:
            of_updates += self.weigh(trainer)
        of_updates += self._updates.judge(self._names, rows, self._experience.largest_reward)
        if of_updates and not symptoms:  # perhaps the experience is to blame, which is looked at less often
            largest = self._experience.largest_reward
            symptoms = list(self._experience.look(trainer.source, at_once=True))
            if self._experience.largest_reward > 2 * largest:  # no fault: a reward was found that nobody knew
                self._updates.begin_anew()
                of_updates = [symptom for symptom in of_updates if symptom.rule not in ("spike", "q_scale")]
        symptoms += of_updates
        self._limit_gradients(trainer)
        return list(self._incidents(symptoms, trainer))

    def _values(self) -> list[list[float]]:
        """Of the updates that were not looked at yet."""
        return [*self._earlier, *(table_of(self._rows, self._names).tolist() if self._rows else [])]

    def weigh(self, trainer: Trainer) -> list[Symptom]:
        """Also asked for before the first update, to compare with."""
        self._weighed_at = trainer.gradient_steps
        if not isinstance(trainer, WeighsItself):
            return []
        return list(self._updates.weigh(trainer.weight_rms(), is_early=trainer.gradient_steps <= WEIGH))

    def _skipped(self, trainer: Trainer) -> list[Symptom]:
        before, self._skips = self._skips, trainer.skipped
        if self._skips <= before:
            return []
        limit = self._updates.gradient_limit
        bound = "finite" if limit == inf else f"finite and below {limit:.3g}"
        return [Symptom("skipped", f"{self._skips - before:g} updates were left out: their gradients were not {bound}")]

    def _incidents(self, symptoms: list[Symptom], trainer: Trainer) -> Iterator[Incident]:
        for symptom in symptoms:
            if symptom.rule in self._reported or symptom.rule in self.cfg.ignore:
                continue
            self._reported.append(symptom.rule)
            incident = incident_of(symptom, trainer.gradient_steps, self._train)
            if not incident.rolls_back:
                self._noticed[incident.rule] = incident
            elif self.incident is None:
                self.incident = incident
            yield incident

    def _limit_gradients(self, trainer: Trainer) -> None:
        if isinstance(trainer, LimitsGradients) and "spike" not in self.cfg.ignore:
            trainer.limit_gradients(self._updates.gradient_limit)

    def to_meta(self) -> State:
        return {
            "updates": self._updates.state_dict(),
            "experience": self._experience.state_dict(),
            "names": self._names,
            "rows": [[value if isfinite(value) else str(value) for value in row] for row in self._values()],
            "looked_at": [self._looked_at, self._weighed_at, self._looks, self._skips],
            "reported": self._reported,
            "incident": None if self.incident is None else self.incident.to_json(),
            "noticed": [incident.to_json() for incident in self._noticed.values()],
        }

    def go_on(self, meta: State | None, trainer: Trainer) -> None:
        """With what a checkpoint says was seen; one from before guardrails looked at updates says nothing."""
        if meta is None:
            return
        self._updates.load_state_dict(meta["updates"])
        self._experience.load_state_dict(meta["experience"])
        self._names = meta["names"]
        self._looked_at, self._weighed_at, self._looks, self._skips = meta["looked_at"]
        self._rows, self._earlier = [], [[float(value) for value in row] for row in meta["rows"]]
        self._reported = list(meta["reported"])
        self.incident = None if meta["incident"] is None else Incident.from_json(meta["incident"])
        noticed = [Incident.from_json(incident) for incident in meta.get("noticed", ())]
        self._noticed = {incident.rule: incident for incident in noticed}
        self._limit_gradients(trainer)

    def judge(self, report: Report, trainer: Trainer) -> str | None:
        """None for a healthy epoch, else why it has diverged."""
        bad = report.metrics["guard/bad_row_share"]
        if bad > self.cfg.max_bad_rows:
            if self._is_policys_fault(report, trainer):
                return f"{bad:.0%} of the rows have actions of the policy that are not finite, none, or far off"
            raise EnvFault(self._too_many_bad_rows(bad, report))
        skipped = report.metrics["guard/skipped_share"]
        if skipped > self.cfg.max_skipped:
            return f"{skipped:.0%} of the updates were skipped (limit {self.cfg.max_skipped:.0%})"
        if not trainer.weights_are_finite():
            return "the weights are not finite"
        self._check_limits(report)
        for name, value in report.metrics.items():
            if reason := self._beyond(name, value):
                return reason
        return None if self.incident is None else self.incident.what

    def end(self, why: str) -> RLStudioError:
        """How a run ends whose attempts are used up."""
        blamed = self.incident or next((self._noticed[rule] for rule in SUSPECTED if rule in self._noticed), None)
        if blamed is None:
            return Diverged(f"{why}: lower train.lr")
        kind = EnvFault if blamed.rule in OF_THE_ENVIRONMENT else Diverged
        outliers = self._noticed.get("reward_outliers")
        if outliers is None or outliers is blamed or kind is EnvFault:
            return kind(f"{why}; {blamed.cause}: {blamed.advice}")
        # Values and gradients become as large as such a reward, which no learning rate cures.
        return kind(f"{why}; {outliers.cause}: {outliers.advice}; or {blamed.cause}: {blamed.advice}")

    def _too_many_bad_rows(self, share: float, report: Report) -> str:
        listing = ", ".join(f"{reason}: {count}" for reason, count in report.bad.items() if count)
        percent, limit = _percentages(share, self.cfg.max_bad_rows)
        first = "" if report.bad_row is None else f"; the first: {report.bad_row}"
        return (
            f"{percent} of epoch {report.epoch}'s rows were bad ({listing} since the start), more than"
            f" guardrails.max_bad_rows = {limit}{first}; correct the environment, and try it out with: rlctl check"
        )

    def _is_policys_fault(self, report: Report, trainer: Trainer) -> bool:
        """A bad observation makes a bad action, and counts at least as often: what is left over is the policy's own. An
        environment that answers a bad action with a bad observation hides that, but not the state of the policy."""
        counts = report.bad
        if counts.get("actions", 0) > counts.get("observations", 0):
            return True
        learned = (value for name, value in report.metrics.items() if name.startswith("train/"))
        return bool(counts.get("actions")) and not (trainer.weights_are_finite() and all(map(isfinite, learned)))

    def _check_limits(self, report: Report) -> None:
        """Which metrics there are is known only now; a limit on none of them would guard nothing."""
        if report.warming:
            return
        wanted = {name for name in self.cfg.limits if not name.startswith(GROUP)}  # logged in some epochs only
        for name in sorted(wanted - report.metrics.keys()):
            hint = suggest(name, report.metrics) or f"; there are: {', '.join(sorted(report.metrics))}"
            raise ConfigError(f"guardrails.limits: no metric {name!r}{hint}")

    def _beyond(self, name: str, value: float) -> str | None:
        learned = name.startswith("train/") and not name.endswith("/explained_variance")
        if learned and not isfinite(value):
            return f"{name} is {value}"
        limit = self.cfg.limits.get(name)
        if limit is not None and abs(value) > limit:
            return f"{name} is {value:.4g}, beyond guardrails.limits ({limit:g})"
        return None


def _percentages(share: float, limit: float) -> tuple[str, str]:
    """Two shares as percentages with as many digits as it takes to see which is larger."""
    texts = ((f"{share:.{digits}%}", f"{limit:.{digits}%}") for digits in range(1, 12))
    return next((pair for pair in texts if pair[0] != pair[1]), (f"{share}", f"{limit}"))
