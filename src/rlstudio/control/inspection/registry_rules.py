"""The registry: versions without holes, in the stages that their decisions add up to, each with its bundle."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rlstudio.control.registry.records import Decision, Stage, Version
from rlstudio.control.registry.releases import Releases
from rlstudio.control.workspace import Workspace
from rlstudio.core.errors import BundleError, UserError
from rlstudio.experiment.doctor.advice import Advice

RESTORE = "restore the state folder from a backup: rlctl backup FILE --restore"


def inspect_registry(workspace: Workspace, looked_at: dict[str, int]) -> Iterator[Advice]:
    releases = Releases(workspace)
    records = releases.records
    looked_at["versions"] = 0
    for model in records.models():
        versions, history = records.versions(model), records.history(model)
        looked_at["versions"] += len(versions)
        for problem in stage_problems(versions, history):
            yield Advice("error", "registry", f"model {model}: {problem}", RESTORE)
        for version in versions:
            try:
                releases.blobs.get(version.digest)
            except (BundleError, UserError) as error:
                yield Advice("error", "bundle", f"model {version.name}: {error}", RESTORE)


def stage_problems(versions: Sequence[Version], history: Sequence[Decision]) -> Iterator[str]:
    """What a replay of the decisions says against the table."""
    numbers = sorted(version.version for version in versions)
    if numbers != list(range(1, len(numbers) + 1)):
        yield f"its versions have holes ({', '.join(map(str, numbers))})"
    stages: dict[int, Stage] = {}
    for decision in history:
        if decision.kind != "refuse":  # which leaves a version what it is
            stages[decision.version] = decision.stage
    for version in versions:
        says = stages.get(version.version)
        if says != version.stage:
            yield f"version {version.version} is in {version.stage}, its decisions say {says or 'nothing'}"
