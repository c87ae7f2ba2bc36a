"""Send a run to a tool afterwards, or what a sink of it lacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from rlstudio.core.config import apply_overrides, parse
from rlstudio.core.errors import ConfigError, RLStudioError, UserError
from rlstudio.core.parsing.yaml_file import read_file
from rlstudio.experiment.config.sections import SinkConfig, TrackingConfig
from rlstudio.experiment.folder.run_folder import CONFIG
from rlstudio.experiment.metrics.sending.feed import Feed, reason_of
from rlstudio.experiment.metrics.sending.process import require_installed


class SentRecords(NamedTuple):
    records: int  # that were sent now
    link: str  # where the tool has them


def send(run_dir: Path, kind: str, settings: Sequence[str] = (), tags: Sequence[str] = ()) -> SentRecords:
    """Send what the sink lacks of a run: all of it, the rest, or nothing. `settings` (`KEY=VALUE`) are those of the
    sink, over what the config of the run says of it."""
    cfg = sink_of(run_dir, kind, settings)
    require_installed(cfg)
    try:
        with Feed(run_dir, cfg, tags) as feed:
            while feed.step():
                pass
            feed.finish()
            return SentRecords(feed.count, feed.link)
    except RLStudioError:
        raise
    except Exception as error:
        raise UserError(f"run {run_dir.name}: {kind} refused it: {reason_of(error)}; sending again goes on") from error


def sink_of(run_dir: Path, kind: str, settings: Sequence[str]) -> SinkConfig:
    for setting in settings:
        if "=" not in setting:
            raise UserError(f"--set {setting}: expected KEY=VALUE, for example --set artifacts=false")
    overrides = [f"sinks.0.{setting}" for setting in settings]
    try:
        document = apply_overrides({"sinks": [{**_own_settings(run_dir, kind), "kind": kind}]}, overrides, "--to")
        (sink,) = parse(TrackingConfig, document).chosen_sinks()
    except ConfigError as error:  # in the words of the command line
        text = str(error).replace("override sinks.0.", "--set ").replace("sinks[0].", f"{kind}.")
        raise ConfigError(text) from error
    return sink


def _own_settings(run_dir: Path, kind: str) -> Mapping[str, object]:
    """Those of the sink in the config of the run; none where it has no such sink, or cannot be read."""
    try:
        data = read_file(run_dir / CONFIG).data
    except ConfigError:
        return {}
    tracking = data.get("tracking") if isinstance(data, dict) else None
    sinks = tracking.get("sinks") if isinstance(tracking, dict) else None
    of_kind = (sink for sink in sinks or () if isinstance(sink, dict) and sink.get("kind") == kind)
    return next(of_kind, {})
