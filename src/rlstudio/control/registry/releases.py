"""Releases: from a run to a version, from a version to production. What `rlctl promote`, `rollback` and `models` do."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path

from rlstudio.control.home import Home
from rlstudio.control.registry.blobs import Blobs
from rlstudio.control.registry.promotion import Play, PromotionConfig, Verdict, judge
from rlstudio.control.registry.records import Stage, Version
from rlstudio.control.registry.registry import Registry
from rlstudio.core.errors import Conflict, GateFailed, UserError
from rlstudio.experiment.bundle import Bundle, is_bundle
from rlstudio.experiment.run_folder import RunFolder


@dataclass(frozen=True)
class Release:
    """A version and, where it was judged, why it is where it is."""

    version: Version
    verdict: Verdict | None = None


class Releases:
    def __init__(self, home: Home) -> None:
        self._home = home

    @cached_property
    def registry(self) -> Registry:
        return Registry(self._home.store.database)

    @cached_property
    def blobs(self) -> Blobs:
        return Blobs(self._home.state_dir / "registry" / "blobs")

    def bundle(self, version: Version) -> Bundle:
        """The policy of a version, verified to the last byte."""
        return self.blobs.get(version.digest)

    # -- versions ---------------------------------------------------------------------------------------------------

    def register_run(self, model: str, folder: RunFolder, checkpoint: str = "last") -> Version:
        """Export a run's policy and keep it as a candidate: a version without a stage."""
        from rlstudio.experiment.export import export_run

        with tempfile.TemporaryDirectory(dir=self._made_state_dir()) as place:
            bundle = export_run(folder, Path(place) / "bundle", checkpoint=checkpoint, formats=_formats())
            return self._register(model, bundle)

    def register_bundle(self, model: str, path: Path) -> Version:
        """Keep a bundle that was exported or imported before."""
        from rlstudio.experiment.bundle import open_bundle

        return self._register(model, open_bundle(path))

    def _register(self, model: str, bundle: Bundle) -> Version:
        digest = self.blobs.put(bundle.path)
        origin = bundle.spec.origin
        return self.registry.register(model, digest, run_id=origin.run_id or "", step=origin.checkpoint or 0)

    def _made_state_dir(self) -> Path:
        from rlstudio.experiment.files import ensure_directory

        ensure_directory(self._home.state_dir)
        return self._home.state_dir

    def version(self, what: str, model: str = "", checkpoint: str = "last") -> Version:
        """MODEL:VERSION that is there; or a bundle folder, or a run, as a new version of `model`."""
        if ":" in what and not model:
            return self.registry.get(*parse_version(what))
        if not model:
            raise UserError(f"promote {what}: say which model it becomes a version of with --model NAME")
        if is_bundle(what):
            return self.register_bundle(model, Path(what))
        return self.register_run(model, self._home.folder_to_read(what), checkpoint)

    # -- stages -----------------------------------------------------------------------------------------------------

    def promote(
        self,
        version: Version,
        to: Stage,
        cfg: PromotionConfig,
        *,
        if_current: int | None = None,
        force: str = "",
        imports: Sequence[str] = (),
    ) -> Release:
        """Into production only if the numbers say so, or by force with a reason; what is refused stays as it is."""
        candidate = self.bundle(version)  # also what is forced, or only staged, must be whole
        if to != Stage.PRODUCTION:
            name, number = version.model, version.version
            return Release(self.registry.promote(name, number, to, if_current=if_current, reason=force))
        current = self.registry.production(version.model)
        seen = (current.version if current else 0) if if_current is None else if_current
        if force:
            forced = self.registry.promote(
                version.model, version.version, to, if_current=seen, kind="force", reason=force
            )
            return Release(forced)
        incumbent = None if current is None else self.bundle(current)
        verdict = self.judge(candidate, incumbent, cfg, imports)
        if not verdict.promote:
            raise GateFailed(f"model {version.name}: not promoted: {verdict.reason}")
        promoted = self.registry.promote(
            version.model, version.version, to, if_current=seen, reason=verdict.reason, verdict=verdict.to_json()
        )
        return Release(promoted, verdict)

    def judge(
        self, candidate: Bundle, incumbent: Bundle | None, cfg: PromotionConfig, imports: Sequence[str] = ()
    ) -> Verdict:
        """Both on the candidate's environment, so it must also be the incumbent's."""
        if incumbent is not None and incumbent.spec.spaces != candidate.spec.spaces:
            raise Conflict(
                f"{candidate.path.name[:12]}: sees or does other things than what is in production; only --force REASON"
                " replaces a policy by one of another kind"
            )
        against = None if incumbent is None else _player(incumbent, imports)
        return judge(_player(candidate, imports), against, cfg)


def _formats() -> tuple[str, ...]:
    """The graph too, where what it takes is installed; weights and spec suffice to act with RLStudio."""
    return ("bundle", "onnx") if find_spec("onnx") and find_spec("onnxscript") else ("bundle",)


def _player(bundle: Bundle, imports: Sequence[str]) -> Play:
    from rlstudio.experiment.evaluate import evaluate

    experiment, policy = bundle.experiment(tuple(imports)), bundle.policy()

    def play(seed: int, episodes: int) -> Sequence[float]:
        return evaluate(policy, experiment.env, episodes=episodes, seed=seed).returns

    return play


def parse_version(text: str) -> tuple[str, int]:
    """`NAME:VERSION`."""
    model, _, number = text.rpartition(":")
    if not model or not (number.isascii() and number.isdigit() and len(number) < 10):
        raise UserError(f"{text!r}: name a version as MODEL:VERSION, for example cartpole:3")
    return model, int(number)
