"""Session: one run in one process, from its folder to its result.

    with Session.open(folder, cfg) as session:
        for tick in session:
            ...

It iterates the one loop and does everything around it: metrics, evaluation, gates, guardrails, checkpoints, status,
signals. Leaving the loop, a signal or kill -9 all leave a run that `resume` continues bit for bit.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from rlstudio.core.contracts import Lease, State, VecEnv
from rlstudio.core.errors import (
    Diverged,
    EnvFault,
    GateFailed,
    Incompatible,
    LeaseLost,
    NoValidCheckpoint,
    RLStudioError,
    StorageError,
)
from rlstudio.experiment.build import build_env, build_trainer
from rlstudio.experiment.checkpoint import Checkpoints, Loaded
from rlstudio.experiment.config import ExperimentConfig
from rlstudio.experiment.evaluate import Evaluation, Evaluator
from rlstudio.experiment.gates import Gates
from rlstudio.experiment.guardrails import Guardrails
from rlstudio.experiment.lease import FileLease
from rlstudio.experiment.loop import Position, Report, Tick, train
from rlstudio.experiment.machine import differences, pick_device, set_threads, topology
from rlstudio.experiment.process import this_process
from rlstudio.experiment.recorder import Recorder
from rlstudio.experiment.run_folder import RunFolder
from rlstudio.experiment.signals import Interrupted, StopSignals
from rlstudio.experiment.snapshot import capture, restore
from rlstudio.experiment.status import RunState

REASONS: dict[type[RLStudioError], tuple[RunState, str]] = {
    StorageError: (RunState.INTERRUPTED, "storage_full"),
    EnvFault: (RunState.FAILED, "env_fault"),
    Diverged: (RunState.FAILED, "diverged"),
    GateFailed: (RunState.FAILED, "gate_failed"),
    NoValidCheckpoint: (RunState.FAILED, "no_valid_checkpoint"),
}


class Memory:
    """What the session itself must remember across a crash."""

    def __init__(self) -> None:
        self.best: dict[str, Any] | None = None  # the best evaluation during training: step, return
        self.good_step: int | None = None  # the last point a diverged run may go back to
        self.final: dict[str, Any] | None = None  # the evaluation after training, once it is done

    def state_dict(self) -> State:
        return {"best": self.best, "good_step": self.good_step, "final": self.final}

    def load_state_dict(self, state: State) -> None:
        self.best, self.good_step, self.final = state["best"], state["good_step"], state["final"]


class Session:
    def __init__(
        self,
        folder: RunFolder,
        cfg: ExperimentConfig,
        lease: Lease,
        *,
        env: VecEnv | None = None,
        allow_inexact: bool = False,
    ) -> None:
        set_threads(cfg.runtime.threads)
        self.folder = folder
        self.cfg = cfg
        self.lease = lease
        self.device = pick_device(cfg.runtime.device)
        self.status = folder.read_status().owned_by(this_process())
        self.memory = Memory()
        self.gates = Gates(cfg.gates)
        self.guardrails = Guardrails(cfg.guardrails)
        self.checkpoints = Checkpoints(folder.path, folder.id, lease)
        self.recorder = Recorder(folder.path, cfg.tracking, lease)
        self.evaluation: Evaluation | None = None
        self.attempt = 0
        self._allow_inexact = allow_inexact
        self._evaluators: dict[str, Evaluator] = {}
        self._saved_at = time.monotonic()
        self._signals = StopSignals(self._grace_over)
        self.env = env or build_env(cfg)
        try:
            self._build()
            self._continue()
        except BaseException:
            self.env.close()
            raise

    @classmethod
    def open(
        cls, folder: RunFolder, cfg: ExperimentConfig, *, env: VecEnv | None = None, allow_inexact: bool = False
    ) -> Session:
        """Take the run's lease and build it, at its newest good checkpoint if there is one."""
        lease = FileLease(folder.path)
        try:
            return cls(folder, cfg, lease, env=env, allow_inexact=allow_inexact)
        except BaseException as error:
            lease.release()
            if isinstance(error, NoValidCheckpoint):
                folder.write_status(replace(folder.read_status(), state=RunState.FAILED, **_reason(error)))
            raise

    def extend(self, config_yaml: str, config_hash: str) -> None:
        """The run goes on longer than it was launched for."""
        self.folder.write_config(config_yaml)
        self.status = replace(self.status, config_hash=config_hash, total_epochs=self.cfg.train.epochs)
        self.folder.event("extended", total_epochs=self.cfg.train.epochs)

    # -- building and restoring -------------------------------------------------------------------------------------

    def _build(self) -> None:
        self.position = Position()
        self.trainer = build_trainer(self.cfg, self.env, self.device, self.attempt)
        self.topology = topology(self.trainer, self.env, self.device, self.cfg.runtime.threads)

    def _parts(self) -> dict[str, Any]:
        return {"position": self.position, "gates": self.gates, "session": self.memory}

    def _continue(self) -> None:
        """Take up the newest good checkpoint, and cut the metrics back to it."""
        found = self.checkpoints.newest_good()
        if found is None:
            self.recorder.cut_back({})
            return
        for rejected in found.rejected:
            self.folder.event("checkpoint_rejected", step=rejected.step, reason=rejected.reason)
        self._check_topology(found.loaded)
        self._load(found.loaded)
        self.folder.event("resumed", env_steps=found.loaded.info.step, state_hash=found.loaded.info.state_hash)

    def _load(self, loaded: Loaded) -> None:
        attempt = int(loaded.content["rng_state"]["attempt"])
        if attempt != self.attempt:
            self.attempt = attempt
            self._build()
        restore(loaded.content, self.trainer, self._parts())
        missing = self.recorder.cut_back(loaded.info.meta["metrics"])
        for sink, count in missing.items():
            self.folder.event("metrics_missing", sink=sink, amount=count)
        if self.env.exact is not None:
            self._mark_inexact(self.env.exact)

    def _check_topology(self, loaded: Loaded) -> None:
        changed = differences(dict(loaded.info.fields["topology"]), self.topology)
        if not changed:
            return
        if not self._allow_inexact:
            raise Incompatible(
                f"run {self.folder.id}: resuming here would not be exact ({', '.join(changed)});"
                " go back to the recorded ones, or accept it with --allow-inexact"
            )
        self._mark_inexact(f"resumed on another topology: {', '.join(changed)}")

    def _mark_inexact(self, reason: str) -> None:
        if self.status.exact:
            self.status = replace(self.status, exact=False, exact_reason=reason)
            self.folder.event("inexact", reason=reason)

    # -- the run ----------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Tick]:
        """Train to the end. Whatever happens, the folder says truthfully how it ended."""
        with self._signals:
            try:
                self._say(RunState.RUNNING)
                yield from self._train()
                self._finish()
            except Interrupted as stop:
                self._save()
                self._say(
                    RunState.INTERRUPTED, reason="signal", message=f"{stop}; go on with: rlctl resume {self.folder.id}"
                )
                raise
            except GeneratorExit:
                self._save()
                self._say(RunState.INTERRUPTED, reason="user", message=f"go on with: rlctl resume {self.folder.id}")
                raise
            except LeaseLost:
                raise
            except RLStudioError as error:
                self._fail(error)
                raise
            except Exception as error:
                (self.folder.artifacts_path / "traceback.txt").write_text(traceback.format_exc())
                self._say(RunState.FAILED, reason="internal", message=f"{type(error).__name__}: {error}")
                raise

    def _train(self) -> Iterator[Tick]:
        while True:
            started, steps = time.perf_counter(), self.trainer.source.collector.env_steps
            for tick in train(self.trainer, self.cfg.train, self.position):
                if tick.report is not None:
                    now = time.perf_counter()
                    rate = (tick.env_steps - steps) / (now - started)
                    started, steps = now, tick.env_steps
                    if not self._close_epoch(tick.report, rate):
                        break  # rolled back: the loop goes on with the trainer of the new attempt
                elif self._due():
                    self._save()
                yield tick
                self._signals.raise_if_received()
            else:
                return

    def _close_epoch(self, report: Report, rate: float) -> bool:
        """Judge, log, evaluate, save. False where the run was rolled back."""
        diverged = self.guardrails.judge(report, self.trainer)
        if diverged is not None:
            self._roll_back(report, diverged)
            return False
        self.recorder.write(report.env_steps, report.metrics)
        self.recorder.write_clock(report.env_steps, {"time/steps_per_second": rate})
        cfg = self.cfg
        better = False
        if cfg.eval.every_epochs and report.epoch % cfg.eval.every_epochs == 0:
            better = self._evaluate_epoch(report)
        grid = report.epoch % cfg.guardrails.rollback_every_epochs == 0
        if grid:
            self.memory.good_step = report.env_steps
        by_epoch = cfg.ckpt.every_epochs is not None and report.epoch % cfg.ckpt.every_epochs == 0
        if better or grid or by_epoch or self._due():
            self._save()
        else:
            self.recorder.flush()
        self.status = replace(
            self.status, env_steps=report.env_steps, gradient_steps=report.gradient_steps, epoch=report.epoch
        )
        self.folder.write_status(self.status)
        return True

    def _roll_back(self, report: Report, why: str) -> None:
        """Back to the last point on the grid, with other random numbers; after too many attempts, give up."""
        self.folder.event("diverged", epoch=report.epoch, env_steps=report.env_steps, reason=why, attempt=self.attempt)
        limit = self.cfg.guardrails.max_rollbacks
        if self.attempt >= limit:
            raise Diverged(f"epoch {report.epoch}: {why}; {limit} roll-backs did not help: lower train.lr")
        attempt, good = self.attempt + 1, self.memory.good_step
        self.attempt = attempt
        self._build()
        if good is None:
            self.memory, self.gates = Memory(), Gates(self.cfg.gates)
            self.recorder.cut_back({})
        else:
            loaded = self.checkpoints.load(good)
            restore(loaded.content, self.trainer, self._parts())
            self.recorder.cut_back(loaded.info.meta["metrics"])
        self.checkpoints.discard_after(good or 0)
        self.folder.event("rolled_back", to_env_steps=good or 0, attempt=attempt)

    # -- evaluation -------------------------------------------------------------------------------------------------

    def _evaluate(self, purpose: Any, episodes: int) -> Evaluation:
        if purpose not in self._evaluators:
            cfg = self.cfg
            self._evaluators[purpose] = Evaluator(cfg.env, episodes=episodes, seed=cfg.env.seed, purpose=purpose)
        return self._evaluators[purpose].run(self.trainer.agent)

    def _evaluate_epoch(self, report: Report) -> bool:
        """Evaluate on the selection seeds; True where it is the best so far and its checkpoint is kept."""
        evaluation = self._evaluate("selection", self.cfg.eval.episodes)
        self.evaluation = evaluation
        self.recorder.write(report.env_steps, evaluation.metrics())
        self.status = replace(self.status, **_told(evaluation))
        mean = evaluation.summary.mean
        better = self.memory.best is None or mean > self.memory.best["return"]
        if better:
            self.memory.best = {"step": report.env_steps, "return": mean, "epoch": report.epoch}
        self.gates.judge(report.epoch, evaluation.summary).enforce()
        return better and self.cfg.ckpt.keep_best

    def _finish(self) -> None:
        if self.memory.final is None or self.memory.final["epoch"] != self.position.epoch:
            evaluation = self._evaluate("report", self.cfg.eval.final_episodes)
            self.evaluation = evaluation
            steps = self.trainer.source.collector.env_steps
            self.recorder.write(steps, evaluation.metrics(), ("final",))
            verdict = self.gates.judge_final(self.position.epoch, evaluation.summary)
            self.memory.final = {"epoch": self.position.epoch, **_told(evaluation)}
            self.status = replace(self.status, **_told(evaluation))
            self._save()
            verdict.enforce()
        self._say(RunState.COMPLETED)

    # -- saving and telling -----------------------------------------------------------------------------------------

    def _due(self) -> bool:
        every = self.cfg.ckpt.every_seconds
        return every is not None and time.monotonic() - self._saved_at >= every

    def _save(self) -> None:
        collector = self.trainer.source.collector
        meta = {"run_id": self.folder.id, "metrics": self.recorder.offsets()}
        content = capture(self.trainer, self._parts(), seed=self.cfg.env.seed, attempt=self.attempt, meta=meta)
        if self.env.exact is not None:
            self._mark_inexact(self.env.exact)
        fields = {
            "env_steps": collector.env_steps,
            "gradient_steps": self.trainer.optimizer.calls,
            "epoch": self.position.epoch,
            "config_hash": self.status.config_hash,
            "topology": self.topology,
            "exact": self.status.exact,
            "exact_reason": self.status.exact_reason,
        }
        info = self.checkpoints.save(content, step=collector.env_steps, manifest=fields)
        keep = {self.memory.good_step} | ({self.memory.best["step"]} if self.memory.best else set())
        self.checkpoints.prune(self.cfg.ckpt.keep_last, {step for step in keep if step is not None})
        self._saved_at = time.monotonic()
        self.status = replace(
            self.status,
            state_hash=info.state_hash,
            env_steps=collector.env_steps,
            gradient_steps=self.trainer.optimizer.calls,
            epoch=self.position.epoch,
        )

    def _say(self, state: RunState, reason: str = "", message: str = "") -> None:
        self.status = replace(self.status, state=state, reason=reason, message=message)
        self.folder.write_status(self.status)
        self.folder.event(state.lower(), reason=reason, env_steps=self.status.env_steps)

    def _fail(self, error: RLStudioError) -> None:
        state, reason = next(
            (told for kind, told in REASONS.items() if isinstance(error, kind)), (RunState.FAILED, "internal")
        )
        try:
            self._say(state, reason=reason, message=str(error))
        except StorageError:
            if not isinstance(error, StorageError):
                raise

    def _grace_over(self, signum: int) -> None:
        """No Tick came in time: say so and leave on the last checkpoint."""
        self._say(RunState.INTERRUPTED, reason="signal", message=f"go on with: rlctl resume {self.folder.id}")

    def close(self) -> None:
        for evaluator in self._evaluators.values():
            evaluator.close()
        self.env.close()
        self.recorder.close()
        self.folder.close()
        self.lease.release()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _told(evaluation: Evaluation) -> dict[str, Any]:
    summary = evaluation.summary
    return {"eval_return": summary.mean, "eval_interval": (summary.ci_low, summary.ci_high)}


def _reason(error: RLStudioError) -> dict[str, str]:
    return {"reason": REASONS[type(error)][1], "message": str(error)}
