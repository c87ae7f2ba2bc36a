"""The evaluations of a run. During training, on the selection seeds: they choose `best`, and the gates follow them.
After training, on the report seeds, which chose nothing. Environments are made at the first use and kept."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack

from rlstudio.core.contracts import Player, Trainer
from rlstudio.core.host.phases import PHASES
from rlstudio.core.host.trace import TRACE
from rlstudio.core.own_metrics import OWN_METRICS
from rlstudio.experiment.config.experiment import ExperimentConfig
from rlstudio.experiment.judging.evaluate import Evaluation, Evaluator, Purpose
from rlstudio.experiment.judging.gates import Gates
from rlstudio.experiment.metrics.recorder import Recorder
from rlstudio.experiment.run.episode_videos import EpisodeVideos
from rlstudio.experiment.run.milestones import Final, Milestones
from rlstudio.experiment.run.run_writer import RunWriter
from rlstudio.experiment.training.position import Report


class RunEvaluations:
    """Each evaluation is recorded among the metrics and in the status; `latest` is the last one of this process."""

    def __init__(
        self, cfg: ExperimentConfig, recorder: Recorder, writer: RunWriter, poll: Callable[[], None] = lambda: None
    ) -> None:
        self.cfg = cfg
        self.latest: Evaluation | None = None
        self.latest_epoch = 0  # after which it was made
        self.under_way = ""  # what is evaluated right now, for whoever watches from another thread
        self._recorder = recorder
        self._writer = writer
        self._videos = EpisodeVideos(writer.folder, cfg.eval_env, cfg.eval.videos, poll)
        self._poll = poll  # may raise: training does not notice where an evaluation ends
        self._evaluators: dict[Purpose, Evaluator] = {}
        self._opened = ExitStack()

    def at_start(self, trainer: Trainer) -> None:
        """The first point of the curve, on the seeds of those that follow. It chooses nothing; no gate judges it."""
        wanted = self.cfg.eval.at_start and self.cfg.eval.every_epochs
        if wanted and trainer.source.env_steps == 0 and trainer.lr is not None:  # without learning all points are one
            self._recorder.write(0, self._run("selection", self.cfg.eval.episodes, trainer.agent, 0).metrics())

    def during_training(self, agent: Player, report: Report, milestones: Milestones, gates: Gates) -> bool:
        """Evaluate after an epoch; True where it is the best so far and its checkpoint is kept. GateFailed where the
        gates end the run."""
        evaluation = self._run("selection", self.cfg.eval.episodes, agent, report.epoch)
        self._recorder.write(report.env_steps, evaluation.metrics())
        mean = evaluation.summary.mean
        best = milestones.best is None or mean > milestones.best["return"]
        if best:
            milestones.best = {"step": report.env_steps, "return": mean, "epoch": report.epoch}
        if not report.warming:  # no rule is about a policy that has not learned yet
            gates.follow(report.epoch, evaluation.metrics())
            gates.judge(report.epoch, evaluation.summary).enforce()
        return best and self.cfg.ckpt.keep_best

    def after_training(self, agent: Player, env_steps: int, epoch: int) -> Final:
        """The evaluation that counts, as `Milestones.final` holds it."""
        evaluation = self._run("report", self.cfg.eval.final_episodes, agent, epoch)
        self._recorder.write(env_steps, evaluation.metrics(), ("final",))
        return {"epoch": epoch, "summary": evaluation.summary.to_json()}

    def _run(self, purpose: Purpose, episodes: int, agent: Player, epoch: int) -> Evaluation:
        if purpose not in self._evaluators:
            env = self.cfg.eval_env
            evaluator = Evaluator(
                env,
                episodes=episodes,
                seed=env.seed,
                purpose=purpose,
                opponents=self.cfg.eval.opponents,
                poll=self._poll,
                team=self.cfg.eval.team,
            )
            self._evaluators[purpose] = self._opened.enter_context(evaluator)
        self.under_way = f"evaluating{' the result' if purpose == 'report' else ''}, {episodes} episodes"
        started = time.perf_counter()
        with OWN_METRICS.paused():
            self.latest = self._evaluators[purpose].run(agent)
            self._videos.film(agent, self.latest, self._evaluators[purpose].params, epoch)
        PHASES.evaluate += time.perf_counter() - started
        TRACE.span("evaluate", started)
        self.under_way, self.latest_epoch = "", epoch
        self._writer.set_evaluation(self.latest.summary)
        return self.latest

    def close(self) -> None:
        self._opened.close()
