"""Sessions of runs that only their folder knows: without a store there is less to set up, and less that can differ."""

from collections.abc import Sequence
from pathlib import Path

from rlstudio.experiment.config.experiment import ExperimentConfig, new_run
from rlstudio.experiment.folder.run_folder import RunFolder
from rlstudio.experiment.run.continuation import continuation_of
from rlstudio.experiment.run.run_writer import ResumeTerms
from rlstudio.experiment.run.session import Session
from rlstudio.experiment.training.build import build


def start(cfg: ExperimentConfig, runs_dir: Path) -> Session:
    """A new run; what is refused leaves no folder."""
    built = build(cfg)
    return Session.open(RunFolder.create(runs_dir, new_run(cfg)), cfg, built=built)


def resume(
    folder: RunFolder, overrides: Sequence[str] = (), *, allow_inexact: bool = False, empty_replay: bool = False
) -> Session:
    return continuation_of(folder, overrides, terms=ResumeTerms(allow_inexact, empty_replay)).open()
