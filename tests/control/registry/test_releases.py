"""From a run to production: bundles in the registry, verified each time, judged by what they play."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from rlstudio import orchestrator
from rlstudio.control.registry import releases as module
from rlstudio.control.registry.promotion import PromotionConfig
from rlstudio.control.registry.records import Stage, Version, is_reference, parse_reference
from rlstudio.control.registry.releases import Releases
from rlstudio.control.runs.remove import remove
from rlstudio.control.workspace import Workspace
from rlstudio.core.errors import BundleError, GateFailed, UserError
from rlstudio.core.run_state import RunState
from rlstudio.delivery.bundle import copy_bundle
from rlstudio.experiment.folder.run_folder import RunFolder
from support.experiments import merged, tiny_data

LEARNING = {"steps_per_epoch": 256, "batch_size": 64, "lr": 3e-3}
TINY = tiny_data(env={"num_envs": 8}, policy={"network": {"hidden_sizes": [16]}}, train={**LEARNING, "epochs": 1})
LONG = merged(TINY, {"name": "long", "train": {"epochs": 24, "passes": 10, "gae_lambda": 0.9}})
QUICK = PromotionConfig(budget=40)


@pytest.fixture(autouse=True)
def _weights_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """The graphs have their own tests; here the decisions count."""
    monkeypatch.setattr(module, "_formats", lambda: ("bundle",))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A place with a poor policy and a better one."""
    runs = tmp_path_factory.mktemp("home") / "runs"
    for config in (TINY, LONG):
        orchestrator.run(config, runs_dir=runs, progress=False)
    return runs


def folder(place: Path, name: str) -> RunFolder:
    return Workspace(place).folder_to_read(name)


def fresh(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Releases:
    """The runs are shared, the store and the registry are each test's own."""
    monkeypatch.setenv("RLSTUDIO_HOME", str(tmp_path / "state"))
    return Releases(Workspace(place))


@pytest.fixture
def releases(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Releases:
    return fresh(place, tmp_path, monkeypatch)


@pytest.fixture
def both(releases: Releases, place: Path) -> tuple[Version, Version]:
    return (
        releases.register_run("pole", folder(place, "tiny")),
        releases.register_run("pole", folder(place, "long")),
    )


def test_better_goes_into_production_and_worse_does_not(releases: Releases, both: tuple[Version, Version]) -> None:
    poor, good = both
    first = releases.promote(poor, Stage.PRODUCTION, QUICK)
    assert first.verdict is not None
    assert first.verdict.incumbent is None
    second = releases.promote(good, Stage.PRODUCTION, QUICK)
    assert second.verdict is not None
    assert second.verdict.looks[-1].lower > 0
    with pytest.raises(GateFailed, match=r"pole:1: not promoted: not better than production"):
        releases.promote(poor, Stage.PRODUCTION, QUICK)
    production = releases.registry.production("pole")
    assert production is not None
    assert production.version == 2
    *_, promoted, refused = releases.registry.history("pole")
    assert (refused.kind, refused.version, refused.stage) == ("refuse", 1, Stage.ARCHIVED)
    assert refused.numbers["promote"] is False
    kept = promoted.numbers
    assert kept["promote"] is True
    assert kept["looks"][-1]["mean"] == second.verdict.looks[-1].mean


def test_force_needs_no_judge_but_keeps_its_reason(releases: Releases, both: tuple[Version, Version]) -> None:
    poor, good = both
    releases.promote(good, Stage.PRODUCTION, QUICK)
    forced = releases.promote(poor, Stage.PRODUCTION, QUICK, force="the customer wants the old gait")
    assert forced.version.version == 1
    last = releases.registry.history("pole")[-1]
    assert (last.kind, last.reason, last.numbers) == ("force", "the customer wants the old gait", {})


def test_staging_asks_for_no_numbers(releases: Releases, both: tuple[Version, Version]) -> None:
    assert releases.promote(both[0], Stage.STAGING, QUICK).version.stage == Stage.STAGING


def test_the_same_run_twice_is_one_version(releases: Releases, place: Path, both: tuple[Version, Version]) -> None:
    blobs = sorted(path.name for path in releases.blobs.root.iterdir())
    assert sorted({version.digest for version in both}) == blobs
    assert releases.register_bundle("pole", releases.blobs.root / both[0].digest).version == 1


def test_versions_are_read_only_and_outlive_their_run(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = tmp_path / "runs"
    orchestrator.run(TINY, runs_dir=runs, progress=False)
    workspace = Workspace(runs)
    releases = Releases(workspace)
    version = releases.register_run("pole", workspace.folder_to_read("tiny"))
    remove(workspace, workspace.find("tiny"))
    bundle = releases.bundle(version)
    assert bundle.agent().act([0.0, 0.0, 0.0, 0.0]) in (0, 1)
    for path in bundle.path.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o400
    assert releases.blobs.collect(releases.registry.digests()) == []
    assert releases.blobs.collect(set()) == [version.digest]


def test_a_flipped_bit_anywhere_is_refused_by_name(releases: Releases, both: tuple[Version, Version]) -> None:
    _, good = both
    root = releases.blobs.root / good.digest
    for path in sorted(root.iterdir()):
        data = path.read_bytes()
        os.chmod(path, 0o600)
        for position in {0, len(data) // 2, len(data) - 1}:
            flipped = bytearray(data)
            flipped[position] ^= 1
            path.write_bytes(bytes(flipped))
            for use in (
                lambda: releases.bundle(good),
                lambda: releases.promote(good, Stage.PRODUCTION, QUICK),
                lambda: releases.promote(good, Stage.PRODUCTION, QUICK, force="in a hurry"),
            ):
                with pytest.raises(BundleError, match=path.name.replace(".", r"\.")):
                    use()
        path.write_bytes(data)
    assert releases.registry.production("pole") is None
    assert releases.bundle(good).sha256 == good.digest


@pytest.mark.parametrize("digest", ["..", "../blobs", "/tmp", "", "A" * 64, "0" * 63])
def test_what_a_row_calls_a_digest_is_not_a_path(
    releases: Releases, both: tuple[Version, Version], digest: str
) -> None:
    with releases.registry.database.write() as connection:
        connection.exec_driver_sql("UPDATE model_version SET digest = ? WHERE version = 1", (digest,))
    with pytest.raises(BundleError, match=r"model pole:1: .*: is not the name of a bundle; the store was tampered"):
        releases.bundle(releases.find("pole:1"))


def test_row_57_putting_a_bundle_again_heals_a_damaged_one(
    releases: Releases, both: tuple[Version, Version], tmp_path: Path
) -> None:
    _, good = both
    copy_bundle(releases.bundle(good), tmp_path / "copy")
    weights = releases.blobs.root / good.digest / "weights.safetensors"
    weights.chmod(0o600)
    weights.write_bytes(b"damaged")
    with pytest.raises(BundleError):
        releases.bundle(good)
    assert releases.register_bundle("pole", tmp_path / "copy").digest == good.digest
    assert releases.bundle(good).sha256 == good.digest


def test_a_blob_in_the_wrong_place_is_noticed(releases: Releases, both: tuple[Version, Version]) -> None:
    poor, good = both
    os.rename(releases.blobs.root / poor.digest, releases.blobs.root / "aside")
    os.rename(releases.blobs.root / good.digest, releases.blobs.root / poor.digest)
    with pytest.raises(BundleError, match="another bundle than its name says"):
        releases.bundle(poor)


def test_an_experiment_registers_what_it_trained(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    run = orchestrator.run({**TINY, "register": {"model": "pole"}}, runs_dir=runs, progress=False)
    (version,) = Releases(Workspace(runs)).registry.versions("pole")
    assert (version.run_id, version.step, version.stage) == (run.id, 256, Stage.NONE)
    plain = orchestrator.run(TINY, runs_dir=runs, progress=False)
    assert plain.status.config_hash == run.status.config_hash  # it changes nothing that is learned
    hopeless = {**TINY, "register": {"model": "pole"}, "gates": {"min_return": 1e9}}
    with pytest.raises(GateFailed):
        orchestrator.run(hopeless, runs_dir=runs, progress=False)
    assert len(Releases(Workspace(runs)).registry.versions("pole")) == 1


def test_a_crash_while_registering_is_made_good_by_resuming(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = tmp_path / "runs"
    monkeypatch.setattr(Releases, "register_run", lambda *_: (_ for _ in ()).throw(OSError("no room")))
    with pytest.raises(OSError, match="no room"):
        orchestrator.run({**TINY, "register": {"model": "pole"}}, runs_dir=runs, progress=False)
    (run,) = orchestrator.runs(runs_dir=runs)
    assert run.state == RunState.FAILED
    monkeypatch.undo()
    monkeypatch.setattr(module, "_formats", lambda: ("bundle",))
    assert run.resume(progress=False).state == RunState.COMPLETED
    assert len(Releases(Workspace(runs)).registry.versions("pole")) == 1


@pytest.mark.parametrize(
    "text",
    ["pole", "pole:", ":1", "pole:x", "pole:-1", "pole:1.5", "pole:none", "pole:1:2", "pole:²", "pole:1\n", "a/b:1"],
)
def test_how_a_version_is_named(text: str) -> None:
    with pytest.raises(UserError, match="name a version as MODEL:3, MODEL:production or MODEL:staging"):
        parse_reference(text)
    assert parse_reference("pole:12") == ("pole", 12)
    assert parse_reference("pole:staging") == ("pole", Stage.STAGING)


@pytest.mark.parametrize("text", ["last", "20261115-101112123-ppo-0001", "./pole:1", "runs/pole:1", "Pole:1", ":1", ""])
def test_runs_and_folders_are_not_taken_for_versions(text: str) -> None:
    assert not is_reference(text)


def test_promotion_from_python(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLSTUDIO_HOME", str(tmp_path / "state"))
    poor = orchestrator.promote("tiny", "pole", to="production", runs_dir=place)
    good = orchestrator.promote("long", "pole", to="production", budget=40, runs_dir=place)
    assert (poor.name, good.name, good.stage) == ("pole:1", "pole:2", Stage.PRODUCTION)
    with pytest.raises(GateFailed, match="pole:1: not promoted"):
        orchestrator.promote("pole:1", to="production", budget=40, runs_dir=place)
    assert orchestrator.rollback("pole", runs_dir=place).name == "pole:1"
