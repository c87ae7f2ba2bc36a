"""A checkpoint whose hashes are right and whose values are none that the run can take up: whoever wrote the folder also
wrote the hashes. Any value of the whole state is replaced in turn; what cannot be taken up is said in one line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import numpy as np
import pytest

from rlstudio.core.errors import CheckpointError, RLStudioError
from rlstudio.experiment.checkpoint.checkpoints import Content
from rlstudio.experiment.checkpoint.snapshot import attempt_of, capture, naming_misfits, restore
from rlstudio.experiment.judging.gates import Gates
from rlstudio.experiment.judging.guardrails import Guardrails
from rlstudio.experiment.run.milestones import Milestones
from rlstudio.experiment.training.build import build
from rlstudio.experiment.training.loop import train
from rlstudio.experiment.training.position import Position
from rlstudio.testing.trainers import as_loaded
from support.experiments import tiny

ABSENT = object()
FORGED = (None, "x", [], {}, float("inf"), 10**30, np.array(["x"]), np.full(4, 10**18), ABSENT)
GAME = {"id": "rlstudio/TicTacToe-v0", "num_envs": 4}
CASES = {
    "dqn": {"train": {"prioritized": {}}},
    "ppo": {
        "env": GAME,
        "self_play": {"opponents": {"latest": 0.5, "past": 0.5}, "snapshot_every": 1},
        "eval": {"opponents": ["random"]},
    },
}

Path = tuple[str, ...]


def paths(value: object, above: Path = ()) -> Iterator[Path]:
    for name, inner in value.items() if isinstance(value, Mapping) else ():
        yield (*above, name)
        yield from paths(inner, (*above, name))


def forged(value: Mapping[str, Any], path: Path, instead: object) -> dict[str, Any]:
    first, *rest = path
    changed = {name: inner for name, inner in value.items() if name != first}
    if rest:
        return changed | {first: forged(value[first], tuple(rest), instead)}
    return changed if instead is ABSENT else changed | {first: instead}


@pytest.mark.parametrize("algo", CASES)
def test_every_value_of_a_checkpoint_is_taken_up_or_refused_in_one_line(algo: str) -> None:
    cfg = tiny(algo, **CASES[algo])
    built = build(cfg)
    guardrails, position = Guardrails(cfg.guardrails, cfg.train), Position()
    guardrails.weigh(built.trainer)
    parts = {"position": position, "gates": Gates(cfg.gates), "session": Milestones()}
    for tick in train(built.trainer, cfg.train, position):
        guardrails.follow(built.trainer, position, tick.report is not None)
    content = as_loaded(capture(built.trainer, parts, seed=3, attempt=0, meta={"guardrails": guardrails.to_meta()}))
    every = [path for path in paths(content) if len(path) > 1]
    assert len(every) > 80
    refused: list[str] = []
    for number, path in enumerate(every):
        for instead in islice(FORGED, number % 3, None, 3):  # each of them somewhere, a third of them everywhere
            changed: Content = forged(content, path, instead)
            try:
                attempt_of(changed)
                restore(changed, built.trainer, parts)
                with naming_misfits("its manifest"):
                    guardrails.go_on(changed["meta"].get("guardrails"), built.trainer)
            except RLStudioError as error:
                refused.append(str(error))
    assert len(refused) > len(every) / 2
    assert not [line for line in refused if "\n" in line]
    built.close()


def test_an_error_without_a_text_is_named_by_its_kind() -> None:
    with (
        pytest.raises(CheckpointError, match=r"^the checkpoint does not fit model: ZeroDivisionError$"),
        naming_misfits("model"),
    ):
        raise ZeroDivisionError
