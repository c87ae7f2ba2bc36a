"""Releases: from a run to a version, from a version to production. What `rlctl promote`, `rollback` and `models` do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from rlstudio.control.registry.blobs import Blobs
from rlstudio.control.registry.promotion import Play, PromotionConfig, PromotionVerdict, judge
from rlstudio.control.registry.records import (
    ROLLBACK,
    Decision,
    Stage,
    Version,
    check_model,
    is_reference,
    parse_reference,
)
from rlstudio.control.registry.registry import Registry, refuse_stale
from rlstudio.control.workspace import Workspace
from rlstudio.core.errors import BundleError, Conflict, GateFailed, UnknownName, UserError
from rlstudio.delivery.bundle import Bundle, is_bundle
from rlstudio.experiment.folder.run_folder import RunFolder

if TYPE_CHECKING:
    from rlstudio.experiment.config.experiment import ExperimentConfig


@dataclass(frozen=True)
class Release:
    """A version and, where it was judged, why it is where it is."""

    version: Version
    verdict: PromotionVerdict | None = None


class PromotionRefused(GateFailed):
    """A version that was judged and not promoted, with every number."""

    def __init__(self, version: Version, verdict: PromotionVerdict) -> None:
        super().__init__(f"model {version.name}: not promoted: {verdict.reason}")
        self.version, self.verdict = version, verdict


class Releases:
    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    @cached_property
    def registry(self) -> Registry:
        """To change something."""
        return Registry(self._workspace.store.database)

    @property
    def records(self) -> Registry:
        """To look, which changes nothing."""
        return Registry(self._workspace.records.database)

    @cached_property
    def blobs(self) -> Blobs:
        return Blobs(self._workspace.state_dir / "registry" / "blobs")

    def bundle(self, version: Version) -> Bundle:
        """The policy of a version, verified to the last byte."""
        try:
            return self.blobs.get(version.digest)
        except (BundleError, UserError) as error:
            problem = str(error).partition("; make one with")[0]
            raise BundleError(
                f"model {version.name}: {problem}; restore it from a copy, or use another version"
            ) from error

    def find(self, reference: str) -> Version:
        """`MODEL:3`, `MODEL:production`, `MODEL:staging`. Looking creates nothing."""
        model, which = parse_reference(reference)
        self._refuse_empty(model)
        return self.records.get(model, which)

    def versions(self, model: str | None = None) -> list[Version]:
        """The versions of one model, newest first, or of all models."""
        if model is not None:
            self._refuse_empty(model)
            return self.records.versions(model)
        models = [] if self._workspace.is_empty else self.records.models()
        return [version for name in models for version in self.records.versions(name)]

    def history(self, model: str) -> list[Decision]:
        """Every decision about a model, oldest first."""
        return self.records.history(model)

    def _refuse_empty(self, model: str) -> None:
        if self._workspace.is_empty:
            where = f"there are none in {self._workspace.given_dir} yet"
            raise UnknownName(f"model {model!r}: {where}; make one with: rlctl promote RUN --model NAME")

    # -- versions ---------------------------------------------------------------------------------------------------

    def register_run(self, model: str, folder: RunFolder, checkpoint: str = "last") -> Version:
        """Export a run's policy and keep it as a candidate: a version without a stage."""
        from rlstudio.delivery.export import export_run

        check_model(model)
        with self.blobs.unfinished() as place:
            bundle = export_run(folder, place / "bundle", checkpoint=checkpoint, usual=_formats())
            return self._register(model, bundle)

    def register_bundle(self, model: str, path: str | Path) -> Version:
        """Keep a bundle that was exported or imported before."""
        from rlstudio.delivery.bundle import open_bundle

        check_model(model)
        return self._register(model, open_bundle(path))

    def _register(self, model: str, bundle: Bundle) -> Version:
        digest = self.blobs.put(bundle.path)
        origin = bundle.spec.origin
        return self.registry.register(model, digest, run_id=origin.run_id or "", step=origin.checkpoint or 0)

    def version(self, what: str, model: str = "", checkpoint: str = "last") -> Version:
        """A version that is there; or a bundle folder, or a run, as a new version of `model`."""
        if is_reference(what):
            if model or checkpoint != "last":
                raise UserError(f"{what}: is a version already; leave --model and --checkpoint out")
            return self.find(what)
        if not model:
            raise UserError(f"promote {what!r}: say which model it becomes a version of with --model NAME")
        check_model(model)
        if is_bundle(what):
            if checkpoint != "last":
                raise UserError(f"--checkpoint: the bundle {what} has one policy; leave it out")
            return self.register_bundle(model, what)
        return self.register_run(model, self._workspace.folder_to_load(what), checkpoint)

    # -- stages -----------------------------------------------------------------------------------------------------

    def promote(
        self,
        version: Version,
        to: Stage,
        cfg: PromotionConfig,
        *,
        if_current: int | None = None,
        force: str | None = None,
        imports: Sequence[str] = (),
    ) -> Release:
        """Into production only if the numbers say so, or by force with a reason; what is refused stays as it is."""
        refuse_empty_reason(force)
        candidate = self.bundle(version)  # also what is forced, or only staged, must be whole
        if to != Stage.PRODUCTION:
            name, number = version.model, version.version
            return Release(self.registry.promote(name, number, to, if_current=if_current, reason=force or ""))
        current = self.registry.production(version.model)
        expected = (current.version if current else 0) if if_current is None else if_current
        refuse_stale(version, to, current, expected)  # before minutes of judging; the database has the last word
        if force is not None:
            forced = self.registry.promote(
                version.model, version.version, to, if_current=expected, kind="force", reason=force
            )
            return Release(forced)
        incumbent = None if current is None else self.bundle(current)
        verdict = self.judge(candidate, incumbent, cfg, imports)
        if not verdict.promote:
            self.registry.refuse(version, verdict.reason, verdict.to_json())
            raise PromotionRefused(version, verdict)
        promoted = self.registry.promote(
            version.model, version.version, to, if_current=expected, reason=verdict.reason, verdict=verdict.to_json()
        )
        return Release(promoted, verdict)

    def rollback(self, model: str, *, if_current: int | None = None, reason: str = "") -> Version:
        """The version that was in production before is there again, if it is still whole."""
        self._refuse_empty(model)
        current, before = self.registry.previous(model)
        self.bundle(before)
        expected = current.version if if_current is None else if_current
        return self.registry.promote(
            model, before.version, Stage.PRODUCTION, if_current=expected, kind=ROLLBACK, reason=reason
        )

    def judge(
        self, candidate: Bundle, incumbent: Bundle | None, cfg: PromotionConfig, imports: Sequence[str] = ()
    ) -> PromotionVerdict:
        """Both play the same task, each with its own wrappers of observations; on an easier task a policy would win."""
        ours = candidate.experiment(tuple(imports))
        if incumbent is None:
            return judge(_player(candidate, ours), None, cfg)
        theirs = incumbent.experiment(tuple(imports))
        if incumbent.spec.spaces != candidate.spec.spaces or ours.env.task != theirs.env.task:
            raise Conflict(
                f"{candidate.path.name[:12]} on {ours.env.id}: its observations, actions or task differ from those"
                f" in production on {theirs.env.id}; only --force REASON replaces a policy by one of another kind"
            )
        return judge(_player(candidate, ours), _player(incumbent, theirs), cfg)


def refuse_empty_reason(force: str | None) -> None:
    """`--force --json` passes "--json" as the reason: what begins with a dash is refused like an empty reason."""
    if force is not None and (not force.strip() or force.startswith("-")):
        raise UserError("--force: needs a reason, which is recorded: --force 'why it is promoted without being judged'")


def _formats() -> tuple[str, ...]:
    """The ONNX graph too, where its packages are installed; weights and spec suffice to act with RLStudio."""
    from rlstudio.delivery.graphs import missing_extra

    return ("bundle", "onnx") if missing_extra() is None else ("bundle",)


def _player(bundle: Bundle, cfg: ExperimentConfig) -> Play:
    from rlstudio.delivery.policies import refuse_team
    from rlstudio.experiment.judging.evaluate import evaluate

    refuse_team(bundle, cfg, "evaluate its run, and promote it with --force REASON")
    policy = bundle.policy()

    def play(seed: int, episodes: int) -> Sequence[float]:
        return evaluate(policy, cfg.eval_env, episodes=episodes, seed=seed, opponents=cfg.eval.opponents).returns

    return play
