"""A bundle: a trained policy as a folder that can be given away, with everything needed to act.

    MANIFEST.json        size and sha256 of every other file, and its own sha256 as last line
    spec.json            spaces, Model or plan, graph, where it comes from (spec.py)
    weights.safetensors  the weights of the Model, or of all that a plan is made with
    policy.onnx          the greedy policy, or one plan, as a graph, where asked for; also policy.pt2 and policy.ts
    config.yaml          the experiment; missing where an imported policy named no environment
    README.md            what it is and how to use it
    example.py           acts: by policy.onnx without RLStudio, or with RLStudio where there is no policy.onnx

It is written whole or not at all, and verified to the last byte before anything in it is parsed. Nothing in it is ever
executed: no pickle, and `policy.ts`, `policy.pt2` and `example.py` are for other programs; RLStudio never reads them.

from rlstudio import open_bundle

policy = open_bundle("bundles/cartpole").policy()
action = policy.act(observation)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rlstudio.core.contracts import State
from rlstudio.core.errors import BundleError, CheckpointError, ConfigError, Incompatible, StorageError, UserError
from rlstudio.core.parsing.yaml_file import read_text
from rlstudio.delivery.plan import PlanSpec, planning_agent
from rlstudio.delivery.spec import ActingFacts, Spec, derived, read_spec
from rlstudio.delivery.zoo import names_zoo, zoo_folder
from rlstudio.storage.abandoned import sweep_abandoned
from rlstudio.storage.folder import Folder, ensure_directory, is_directory, temporary
from rlstudio.storage.refusals import is_users_mistake
from rlstudio.storage.safetensors_file import read_tensors, write_tensors
from rlstudio.storage.seal import sealed, unsealed
from rlstudio.storage.verified import MANIFEST, open_verified, written
from rlstudio.storage.writers import Written, translated_os_errors

if TYPE_CHECKING:
    from rlstudio.agents.agent import Agent
    from rlstudio.experiment.config.experiment import ExperimentConfig

KIND, VERSION = "rlstudio-bundle", 1
SPEC, WEIGHTS, CONFIG, README, EXAMPLE, ONNX = (
    "spec.json",
    "weights.safetensors",
    "config.yaml",
    "README.md",
    "example.py",
    "policy.onnx",
)
REQUIRED = frozenset({SPEC, WEIGHTS, README, EXAMPLE})
KNOWN = REQUIRED | {CONFIG, ONNX, "policy.pt2", "policy.ts"}
SMALL = 4 << 20  # bytes: manifest, spec and config are never larger
_OWNER = "bundle"


@dataclass(frozen=True)
class Bundle:
    """A bundle whose every byte was verified. A file that is read later is verified again as it is read."""

    path: Path
    spec: Spec
    files: Mapping[str, Written]
    sha256: str  # the hash of the manifest, and so of the whole content

    def read(self, name: str) -> bytes:
        """One of its files."""
        with _verified(Folder(self.path, through_link=True), name, self.files[name]) as file:
            return file.read()

    def weights(self) -> dict[str, np.ndarray]:
        with _as_bundle_errors(self.path):
            return read_tensors(BytesIO(self.read(WEIGHTS)), WEIGHTS)

    def agent(self) -> Agent:
        """The agent built again from its weights."""
        from rlstudio.agents.rebuild import rebuilt

        spec = self.spec
        if spec.plan is not None:
            return self._planning(spec.plan)
        assert spec.model is not None  # or there is a plan
        try:
            agent = rebuilt(spec.spaces, spec.model, self.weights())
        except Incompatible as error:
            raise BundleError(f"{self.path}: {WEIGHTS}: {error}") from error
        if spec.derived != derived(spec.spaces, spec.model, ActingFacts.of(agent.model)):
            raise BundleError(f"{self.path}: {SPEC}: `derived` does not follow from its Model")
        return agent

    def _planning(self, plan: PlanSpec) -> Agent:
        from rlstudio.delivery.planned import facts_of

        try:
            agent = planning_agent(self.spec.algo, plan, self.spec.spaces, self.weights())
            same = self.spec.derived == derived(self.spec.spaces, None, facts_of(agent))
        except (UserError, ValueError, RuntimeError) as error:
            reason = str(error).splitlines()[-1].strip()
            raise BundleError(f"{self.path}: {SPEC}: no agent can be built from it: {reason}") from error
        if not same:
            raise BundleError(f"{self.path}: {SPEC}: `derived` does not follow from its plan")
        return agent

    def policy(self) -> Agent:
        """What acts: by the graph where a policy has one, else the agent built again. Offers `act` and `episode`."""
        if ONNX not in self.files or self.spec.plan is not None:
            return self.agent()
        from rlstudio.delivery.onnx_agent import OnnxAgent

        return OnnxAgent(self.spec, self.read(ONNX), f"{self.path}: {ONNX}")

    def experiment(self, allowed: tuple[str, ...] = (), overrides: Sequence[str] = ()) -> ExperimentConfig:
        """The experiment it was trained by. Modules it names are imported only where the user allows each."""
        if CONFIG not in self.files:
            raise UserError(f"{self.path}: names no environment; import it again with --env")
        from rlstudio.experiment.config.experiment import experiment_from
        from rlstudio.experiment.config.imports import import_stored, stored_imports

        label = str(self.path / CONFIG)
        try:
            document = read_text(self.read(CONFIG).decode(), label)
        except (UnicodeDecodeError, ConfigError) as error:
            raise BundleError(f"{label}: {error}") from error
        if missing := [module for module in stored_imports(document) if module not in allowed]:
            options = " ".join(f"--import {module}" for module in missing)
            raise UserError(f"{self.path}: its environment is registered by {', '.join(missing)}; allow it: {options}")
        import_stored(document)
        return experiment_from(document, overrides=overrides, stored=True)


def is_bundle(path: str | Path) -> bool:
    """Whether a path looks like one: a folder with a manifest and a spec in it; or it is meant as one of the zoo."""
    if isinstance(path, str) and names_zoo(path):
        return True
    place = Path(path)
    try:
        folder = Folder(place, through_link=True)
        return is_directory(place) and all(folder.kind(name) is not None for name in (MANIFEST, SPEC))
    except StorageError:
        return False


def open_bundle(path: str | Path) -> Bundle:
    """The bundle at `path`, or the one of the zoo that `zoo:ppo/cartpole` names, verified; `BundleError` names the file
    and the reason."""
    place = zoo_folder(path) if isinstance(path, str) and names_zoo(path) else Path(path)
    try:
        if not is_directory(place):
            raise UserError(f"{place}: there is no bundle; make one with: rlctl export RUN -o DIR")
    except StorageError as error:
        raise UserError(str(error)) from error
    folder = Folder(place, through_link=True)
    with _as_bundle_errors(place):
        data = folder.read(MANIFEST, SMALL)
        if data is None:
            raise BundleError(f"{MANIFEST}: missing")
        files, digest = _parse(unsealed(data, MANIFEST))
        there = set(folder.names()) - {MANIFEST}
        for name in sorted(there ^ set(files)):
            raise BundleError(f"{name}: missing" if name in files else f"{name}: is not in the manifest; remove it")
        contents = {}
        for name, expected in files.items():
            if name in (SPEC, CONFIG) and expected.size > SMALL:
                raise BundleError(f"{name}: has {expected.size:,} bytes; at most {SMALL:,} are read")
            with _verified(folder, name, expected) as file:
                contents[name] = file.read() if name == SPEC else b""
        spec = read_spec(contents[SPEC], SPEC)
        if set(spec.formats.values()) != set(files) & set(KNOWN - REQUIRED - {CONFIG}):
            raise BundleError(f"{SPEC}: names other formats than there are")
    return Bundle(place, spec, files, digest)


def write_bundle(target: Path, spec: Spec, weights: Mapping[str, np.ndarray], others: Mapping[str, bytes]) -> Bundle:
    """A new bundle, whole or not at all. `others` are the remaining files by their names."""
    tensors = BytesIO()
    write_tensors(tensors, weights)
    return _write(target, {SPEC: spec.to_bytes(), WEIGHTS: tensors.getvalue(), **others})


def copy_bundle(bundle: Bundle, target: Path) -> Bundle:
    """The same bundle at another place, byte for byte, whole or not at all."""
    copied = _write(target, {name: bundle.read(name) for name in bundle.files})
    if copied.sha256 != bundle.sha256:
        raise BundleError(f"{target}: is not the same as {bundle.path}; remove it and try again")
    return copied


def _write(target: Path, files: Mapping[str, bytes]) -> Bundle:
    assert set(files) <= KNOWN
    check_target(target)
    try:
        ensure_directory(target.parent)
        above = Folder(target.parent, through_link=True)
        sweep_abandoned(above, _OWNER)
        _publish(above, target.name, files)
    except StorageError as error:
        if is_users_mistake(error):
            raise UserError(str(error)) from error
        raise
    return open_bundle(target)


def check_target(target: Path) -> None:
    """Raise UserError where something is at `target` already; called before the work."""
    try:
        taken = is_directory(target) and bool(Folder(target, through_link=True).names())
        with translated_os_errors(target):
            taken = taken or (not is_directory(target) and target.is_symlink() | target.exists())
    except StorageError as error:
        raise UserError(str(error)) from error
    if taken or not target.name:
        raise UserError(f"{target}: is there already; name a new folder with -o")


def _publish(above: Folder, name: str, files: Mapping[str, bytes]) -> None:
    part = temporary(_OWNER)
    try:
        above.make(part)
        records = {file: above.create(f"{part}/{file}", data)._asdict() for file, data in sorted(files.items())}
        above.create(f"{part}/{MANIFEST}", sealed({"kind": KIND, "version": VERSION, "files": records}))
        above.sync(part)
        above.rename(part, name)
    except BaseException:
        above.discard(part)
        raise
    above.sync()


def _parse(fields: State) -> tuple[dict[str, Written], str]:
    try:
        if fields["kind"] != KIND:
            raise ValueError(f"is the manifest of a {fields['kind']!r}")
        if fields["version"] != VERSION:
            raise ValueError(f"version {fields['version']!r}, this RLStudio reads {VERSION}")
        files = {str(name): written(entry) for name, entry in fields["files"].items()}
        if unknown := sorted(set(files) - KNOWN):
            raise ValueError(f"names {unknown[0]!r}, which no bundle has")
        if missing := sorted(REQUIRED - set(files)):
            raise ValueError(f"does not name {missing[0]}")
        return files, str(fields["sha256"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BundleError(f"{MANIFEST}: not a manifest of a bundle: {error}") from error


def _verified(folder: Folder, name: str, expected: Written) -> BufferedReader:
    if folder.kind(name) not in ("file", None):
        raise BundleError(f"{name}: is not a regular file; put the real one in its place")
    return open_verified(folder, name, expected)


class _as_bundle_errors:  # noqa: N801 - reads as a statement
    """Raise errors of the body as a BundleError that names the bundle first, then the file."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, CheckpointError | StorageError) and not str(error).startswith(f"{self.place}: bundle"):
            text = str(error).removeprefix(f"{self.place}/")
            raise BundleError(f"{self.place}: bundle not accepted: {text}") from error
