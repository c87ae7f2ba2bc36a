"""What TensorBoard shows of a run besides its curves: hyperparameters, and texts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rlstudio.core.run_state import RunState

if TYPE_CHECKING:
    from rlstudio.experiment.metrics.description import RunDescription

NUMBERS = (bool, int, float)


def described(run: RunDescription) -> Iterator[Any]:
    """Summaries of the settings and of the texts."""
    from tensorboard.plugins.hparams.summary_v2 import hparams_pb
    from tensorboard.plugins.text.summary_v2 import text_pb

    settings = {name: value if isinstance(value, NUMBERS) else str(value) for name, value in run.settings().items()}
    yield hparams_pb(settings, trial_id=run.status.id, start_time_secs=run.created())
    facts = "".join(f"{name}: {value}\n" for name, value in {**run.facts(), "tags": " ".join(run.tags)}.items())
    for name, text in {**run.texts(), "run": facts}.items():
        yield text_pb(f"rlstudio/{name}", "".join(f"    {line}\n" for line in text.splitlines()))  # as code: Markdown


def ended(run: RunDescription, now: float) -> Any:
    """How the hyperparameters' table is to call the end."""
    from tensorboard.compat.proto import summary_pb2
    from tensorboard.plugins.hparams import api_pb2, metadata, plugin_data_pb2

    good = run.status.state == RunState.COMPLETED
    status = api_pb2.STATUS_SUCCESS if good else api_pb2.STATUS_FAILURE
    info = plugin_data_pb2.SessionEndInfo(status=status, end_time_secs=now)
    data = metadata.create_summary_metadata(plugin_data_pb2.HParamsPluginData(session_end_info=info))
    value = summary_pb2.Summary.Value(tag=metadata.SESSION_END_INFO_TAG, metadata=data)
    return summary_pb2.Summary(value=[value])
