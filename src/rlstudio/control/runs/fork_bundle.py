"""Fork of a bundle: a new run that begins with the weights and normalizers of a policy, and with nothing else of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rlstudio.control.runs.folders import without_addresses
from rlstudio.control.runs.fork import free_name, is_named, queued
from rlstudio.control.runs.start import begin, request_of
from rlstudio.control.store.records import RunRow
from rlstudio.control.workspace import Workspace
from rlstudio.core.errors import UserError
from rlstudio.core.host.portable import require
from rlstudio.delivery.bundle import Bundle
from rlstudio.experiment.run.pretrained import Pretrained, ReturnMoments, build_pretrained
from rlstudio.experiment.run.session import Session


def fork_bundle(
    workspace: Workspace,
    bundle: Bundle,
    overrides: Sequence[str] = (),
    *,
    imports: Sequence[str] = (),
    version: str | None = None,
    notify: Sequence[str] = (),
) -> Session:
    """The child, ready to train. What does not fit leaves nothing behind. `imports`: modules that the user allows.
    `version`: what the bundle is called in the registry. Like every fork it gets a name of its own."""
    spec, label = bundle.spec, version or str(bundle.path)
    if spec.model is None:
        raise UserError(
            f"{label}: it ships a plan of {spec.algo}, not the networks it learned with; fork its run instead"
        )
    cfg = without_addresses(bundle.experiment(tuple(imports), overrides), label, overrides)
    if not is_named(overrides):
        cfg = cfg.model_copy(update={"name": free_name(workspace, cfg.name)})
    require(cfg.runtime.numerics)
    returns = (
        None if spec.returns is None else ReturnMoments(spec.returns.count, spec.returns.mean, spec.returns.variance)
    )
    built = build_pretrained(cfg, Pretrained(label, spec.spaces, spec.model.network, bundle.weights(), returns))
    request = request_of(cfg, notify)
    origin = {"run_id": spec.origin.run_id, "checkpoint": spec.origin.checkpoint, "version": version}
    weights = {"bundle": str(bundle.path.absolute()), "sha256": bundle.sha256, "kind": spec.origin.kind}
    known = {name: value for name, value in origin.items() if value is not None}
    request = replace(
        request,
        lineage={**(request.lineage or {}), "weights": {**weights, **known}},
        parent_id=spec.origin.run_id,
        parent_step=spec.origin.checkpoint,
    )
    session = begin(workspace, cfg, built, request)
    try:
        session.keep_as_good(0)
    except BaseException:
        session.close()
        session.folder.remove()
        workspace.store.remove(session.folder.id)
        raise
    return session


def fork_bundle_later(
    workspace: Workspace,
    bundle: Bundle,
    overrides: Sequence[str] = (),
    *,
    imports: Sequence[str] = (),
    version: str | None = None,
    notify: Sequence[str] = (),
) -> RunRow:
    """The child in the queue."""
    child = fork_bundle(workspace, bundle, overrides, imports=imports, version=version, notify=notify)
    return queued(workspace, child)
