"""Session: one run in one process, from its folder to its result.

    with orchestrator.session(config) as session:
        for tick in session:
            ...

It iterates the one loop and does everything around it: metrics, evaluation, gates, guardrails, checkpoints, status,
signals. Leaving the loop, a signal or kill -9 all leave a run that `resume` continues bit for bit.
"""

from __future__ import annotations

import signal
import weakref
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, ExitStack

from rlstudio.core.contracts import Lease, Stateful, Trainer
from rlstudio.core.host.portable import require
from rlstudio.core.rng import seed_all
from rlstudio.core.run_state import Reason, RunState
from rlstudio.envs.seeds import first_seeds
from rlstudio.experiment.checkpoint.checkpoints import Content, Loaded
from rlstudio.experiment.checkpoint.manifest import Meta
from rlstudio.experiment.checkpoint.snapshot import attempt_of, capture, naming_misfits, restore
from rlstudio.experiment.checkpoint.team_spec import agent_fields
from rlstudio.experiment.config.experiment import ExperimentConfig
from rlstudio.experiment.folder.lease import FileLease
from rlstudio.experiment.folder.run_folder import SEEDED, RunFolder
from rlstudio.experiment.folder.status import Status
from rlstudio.experiment.judging.collapse import CollapseWatch
from rlstudio.experiment.judging.evaluate import Evaluation
from rlstudio.experiment.judging.gates import Gates
from rlstudio.experiment.judging.guardrails import Guardrails
from rlstudio.experiment.metrics.recorder import Recorder
from rlstudio.experiment.metrics.trace_file import keep_trace
from rlstudio.experiment.run.env_notices import record_lost_metrics, record_notices, record_workers
from rlstudio.experiment.run.evaluations import RunEvaluations
from rlstudio.experiment.run.failures import recording_end, recording_failed_opening
from rlstudio.experiment.run.milestones import Milestones
from rlstudio.experiment.run.run_writer import STRICT, ResumeTerms, RunWriter
from rlstudio.experiment.run.signals import Interrupted, StopSignals
from rlstudio.experiment.training.build import Built, build_runtime, build_trainer
from rlstudio.experiment.training.loop import Tick, train
from rlstudio.experiment.training.machine import set_threads, topology
from rlstudio.experiment.training.position import Pace, Position, Report, report_again
from rlstudio.experiment.training.run_curriculum import curriculum_of
from rlstudio.ops.statistics import Summary


class Session(AbstractContextManager["Session"]):
    def __init__(
        self,
        folder: RunFolder,
        cfg: ExperimentConfig,
        lease: Lease,
        *,
        built: Built | None = None,
        terms: ResumeTerms = STRICT,
    ) -> None:
        set_threads(cfg.runtime.threads)
        seeds = seed_all(cfg.env.seed, env_seeds=first_seeds(cfg.env.seed, cfg.env.num_envs))
        self.folder = folder
        self.cfg = cfg
        self.finalize: Callable[[], None] | None = None  # done once the gates are met, before the run is COMPLETED
        self.signals = StopSignals(self._grace_over)
        self._is_unjudged = False  # the evaluation of the last epoch was interrupted: it comes first on resume
        self._ticks: weakref.ref[Generator[Tick]] | None = None
        with ExitStack() as opened:
            opened.callback(keep_trace, folder.path)  # last, so that what other processes did is in it
            self.runtime = built.runtime if built else build_runtime(cfg)
            opened.callback(self.runtime.close)
            opened.callback(folder.close)
            self.writer = RunWriter(folder, cfg.ckpt, lease)
            folder.event(SEEDED, **seeds.to_json())
            record_workers(self.runtime, folder)
            self.recorder = Recorder(folder.path, cfg.tracking, lease)
            opened.callback(self.recorder.close)
            self.evaluations = RunEvaluations(cfg, self.recorder, self.writer, self.signals.raise_if_received)
            opened.callback(self.evaluations.close)
            self._build(attempt=0, trainer=built.trainer if built else None)
            if (loaded := self.writer.newest(self.topology, terms)) is None:
                self.recorder.cut_back({})
            else:
                self._load(loaded, attempt_of(loaded.content))
                if loaded.replay_damage is not None:
                    self.keep_as_good(loaded.info.step)
            self._opened = ExitStack()
            self._opened.callback(lease.release)
            self._opened.push(opened.pop_all())

    @classmethod
    def open(
        cls,
        folder: RunFolder,
        cfg: ExperimentConfig,
        *,
        lease: Lease | None = None,
        built: Built | None = None,
        terms: ResumeTerms = STRICT,
    ) -> Session:
        """Build the run at its newest good checkpoint, if there is one. It belongs to the holder of the lease: the one
        given, or that of the folder. `built`: what `build(cfg)` gave, for a new run; closed here if it cannot open."""
        with ExitStack() as held:
            if built is not None:
                held.callback(built.close)
            require(cfg.runtime.numerics)
            lease = lease or FileLease(folder.path)
            held.callback(lease.release)
            with recording_failed_opening(folder, lease):
                session = cls(folder, cfg, lease, built=built, terms=terms)
            held.pop_all()
        return session

    @property
    def status(self) -> Status:
        return self.writer.status

    @property
    def evaluation(self) -> Evaluation | None:
        return self.evaluations.latest

    # -- building and restoring -------------------------------------------------------------------------------------

    def _build(self, attempt: int, trainer: Trainer | None = None) -> None:
        self.attempt, self.position = attempt, Position(curriculum_of(self.cfg, self.runtime))
        self.milestones, self.gates = Milestones(), Gates(self.cfg.gates)
        self.guardrails = Guardrails(self.cfg.guardrails, self.cfg.train)
        self.trainer = trainer or build_trainer(self.cfg, self.runtime, attempt)
        where = self.cfg.runtime
        self.topology = topology(self.trainer, self.runtime, where.threads, where.lane, where.numerics)
        self.guardrails.weigh(self.trainer)
        self.collapse = CollapseWatch(self.trainer, self.runtime.spaces.action)

    def parts(self) -> dict[str, Stateful]:
        return {"position": self.position, "gates": self.gates, "session": self.milestones}

    def _load(self, loaded: Loaded, attempt: int) -> None:
        """Take up a checkpoint, and cut the metrics back to it."""
        if attempt != self.attempt:
            self._build(attempt)
        restore(loaded.content, self.trainer, self.parts())
        self.writer.carry_out_decisions(self.trainer.source)
        with naming_misfits("what its manifest says of the run"):
            self.guardrails.go_on(loaded.info.meta.get("guardrails"), self.trainer)
            self.writer.stands_at(loaded.info)
            if self.milestones.final is not None:
                self.writer.set_evaluation(Summary(**self.milestones.final["summary"]))
            record_lost_metrics(self.recorder, loaded.info.meta["metrics"], self.folder)
        self.collapse.read(self.folder.path)
        self._is_unjudged = loaded.info.meta.get("unjudged", False)
        if self.runtime.exact is not None:
            self.writer.mark_inexact(self.runtime.exact)

    def keep_as_good(self, step: int) -> None:
        """Save what the run begins with here: a roll-back or a later resume goes to it, not to chance or to damage."""
        self.milestones.good_step = step
        self.writer.update()
        self._save()

    # -- the run ----------------------------------------------------------------------------------------------------

    def __iter__(self) -> Generator[Tick]:
        """Train to the end. Whatever happens, the folder records how the run ended."""
        ticks = self._run()
        self._ticks = weakref.ref(ticks)  # weak: a loop that was left ends at once, not with the session
        return ticks

    def _run(self) -> Generator[Tick]:
        with self.signals, recording_end(self.writer, self.signals, self.cfg.env.id, self._save_between_epochs):
            self.writer.set_state(RunState.RUNNING)
            yield from self.steps()
            self._finish()

    def steps(self) -> Generator[Tick]:
        """Without what is around it: no signal is caught, and how it ends is not recorded."""
        if self._is_unjudged:
            self._judge_epoch(report_again(self.trainer, self.position))
        while not self.gates.goal_reached():  # it may be reached from the start, by a checkpoint
            self.evaluations.at_start(self.trainer)
            pace = Pace(self.trainer.source.env_steps)
            for tick in train(self.trainer, self.cfg.train, self.position):
                for incident in self.guardrails.follow(self.trainer, self.position, tick.report is not None):
                    self.folder.event("incident", env_steps=tick.env_steps, attempt=self.attempt, **incident.to_json())
                if tick.report is not None:
                    if not self._close_epoch(tick.report, pace.since(tick.env_steps)):
                        break  # rolled back: go on with the trainer of the new attempt
                elif self.writer.due():
                    self._save_between_epochs()
                yield tick
                self.signals.raise_if_received()
                if self.writer.lease.safe_point():
                    raise Interrupted(signal.SIGTERM)
                if self.gates.goal_reached():
                    return
            else:
                return

    def _close_epoch(self, report: Report, rate: float) -> bool:
        """Log, judge, save. False where the run was rolled back."""
        if (diverged := self.guardrails.judge(report, self.trainer)) is not None:
            self._roll_back(report, diverged)
            return False
        self.recorder.write(report.env_steps, report.metrics)
        self.recorder.write_clock(report.env_steps, {"time/steps_per_second": rate, **report.clock})
        record_notices(report, self.folder, self.recorder)
        if self.collapse.add(report.metrics):
            self.folder.event("collapsed", epoch=report.epoch, env_steps=report.env_steps, reason=self.collapse.reason)
        if not report.warming:
            self.gates.follow(report.epoch, report.metrics)
        self._judge_epoch(report)
        return True

    def _judge_epoch(self, report: Report) -> None:
        """Evaluate the epoch where that is due, and save."""
        cfg, epoch = self.cfg, report.epoch
        due, agent = bool(cfg.eval.every_epochs) and epoch % cfg.eval.every_epochs == 0, self.trainer.agent
        self._is_unjudged = due
        best = due and self.evaluations.during_training(agent, report, self.milestones, self.gates)
        self._is_unjudged = False
        if grid := epoch % cfg.guardrails.rollback_every_epochs == 0:
            self.milestones.good_step = report.env_steps
        last = epoch >= cfg.train.epochs or self.gates.goal_reached()  # its checkpoint comes with the final evaluation
        if self.writer.due() or (not last and (best or grid or self.writer.due_at(epoch))):
            self._save()
        else:
            self.recorder.flush()
        self.writer.close_epoch(report)

    def _roll_back(self, report: Report, why: str) -> None:
        """Back to the last point on the grid, with other random numbers; after too many attempts, give up."""
        self.folder.event("diverged", epoch=report.epoch, env_steps=report.env_steps, reason=why, attempt=self.attempt)
        limit = self.cfg.guardrails.max_rollbacks
        if self.attempt >= limit:
            # What the last attempt measured stays, to be looked at: nothing after it cuts the metrics back.
            self.recorder.write(report.env_steps, report.metrics)
            self.recorder.flush()
            raise self.guardrails.end(f"epoch {report.epoch}: {why}; no attempt of {limit + 1} went well")
        attempt = self.attempt + 1
        if (good := self.milestones.good_step) is None:
            self._build(attempt)
            self.writer.carry_out_decisions(self.trainer.source)
            self.recorder.cut_back({})
            self.writer.forget_checkpoints()
        else:
            self._load(self.writer.checkpoints.load(good), attempt)
        # Before the files go: a folder without checkpoints is in order only where this says so.
        self.folder.event("rolled_back", to_env_steps=good or 0, attempt=attempt)
        self.writer.checkpoints.discard_after(good or 0)

    def _finish(self) -> None:
        """The evaluation that counts, the last checkpoint, the gates, and what `finalize` adds."""
        epoch = self.position.epoch
        if self.milestones.final is None or self.milestones.final["epoch"] != epoch:
            agent, steps = self.trainer.agent, self.trainer.source.env_steps
            self.milestones.final = self.evaluations.after_training(agent, steps, epoch)
            self._save()
        # Also after a resume: a run that was refused here, or killed just before, must not slip through.
        self.gates.judge_final(epoch, Summary(**self.milestones.final["summary"])).enforce()
        if self.finalize is not None:
            self.finalize()
        completion = self.gates.completion(epoch, self.cfg.train.epochs)
        self.writer.set_state(RunState.COMPLETED, *(completion or self.collapse.completion()))

    # -- saving and leaving -----------------------------------------------------------------------------------------

    def content(self, meta: Meta) -> Content:
        return capture(self.trainer, self.parts(), seed=self.cfg.env.seed, attempt=self.attempt, meta=meta)

    def _save_between_epochs(self) -> None:
        """By the clock, or on leaving. Several updates may share one environment step, and with it the name of a
        checkpoint: one that `best` or a roll-back goes to was written after the first of them, and stays."""
        step = self.trainer.source.env_steps
        if not (step in self.milestones.keeps() and self.writer.holds(step)):
            self._save()

    def _save(self) -> None:
        guarded = self.guardrails.to_meta()
        meta: Meta = {"run_id": self.folder.id, "metrics": self.recorder.offsets(), "guardrails": guarded}
        if self._is_unjudged:
            meta["unjudged"] = True
        content = self.content(meta)
        if self.runtime.exact is not None:  # after capturing, which may find it out
            self.writer.mark_inexact(self.runtime.exact)
        agent, trainer = agent_fields(self.trainer, self.runtime.spaces), self.trainer
        fields = {"gradient_steps": trainer.gradient_steps, "epoch": self.position.epoch, "topology": self.topology}
        self.writer.save(content, trainer.source.env_steps, fields | agent, self.milestones.keeps())

    def _grace_over(self, signum: int) -> None:
        """No Tick came in time: the run ends at its last checkpoint."""
        self.writer.set_state(RunState.INTERRUPTED, Reason.SIGNAL, f"go on with: rlctl resume {self.folder.id}")

    def close(self) -> None:
        with self._opened:
            ticks = None if self._ticks is None else self._ticks()
            if ticks is not None:
                ticks.close()  # the caller still holds the loop: save the run before the lease is released

    def __exit__(self, *_: object) -> None:
        self.close()
