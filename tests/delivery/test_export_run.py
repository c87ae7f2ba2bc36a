"""Exporting a run: any of its checkpoints, while it trains, with where it comes from; or nothing at all."""

from __future__ import annotations

import io
import logging
import sys

import numpy as np
import pytest

from rlstudio.core.errors import ParityFailed, UserError
from rlstudio.delivery import graphs as graph_formats
from rlstudio.delivery import parity
from rlstudio.delivery.export import export_run
from rlstudio.experiment.checkpoint.checkpoints import Checkpoints
from rlstudio.experiment.judging.evaluate import evaluate
from rlstudio.experiment.run.load import load_run
from support.export_toys import Case, config, quick_registry
from support.sessions import start


@pytest.fixture(scope="module", autouse=True)
def _quick():
    with quick_registry():
        yield


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A finished run with several checkpoints."""
    cfg = config(
        Case("ppo", "CartPole-v1"),
        name="toy",
        eval={"every_epochs": 1, "episodes": 2, "final_episodes": 3},
        ckpt={"every_epochs": 1, "keep_last": 3},
    )
    cfg = cfg.model_copy(update={"train": cfg.train.model_copy(update={"epochs": 3})})
    runs = tmp_path_factory.mktemp("export") / "runs"
    with start(cfg, runs) as session:
        for _ in session:
            pass
    return session.folder


def everything(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def test_it_says_where_it_comes_from_and_changes_nothing(run, tmp_path):
    before = everything(run.path)
    bundle = export_run(run, tmp_path / "b", formats=("bundle",))
    newest = Checkpoints(run.path, run.id, lease=None).list()
    info = max(newest, key=lambda info: info.step)
    origin, spec = bundle.spec.origin, bundle.spec
    assert (origin.run_id, origin.checkpoint, origin.state_hash) == (run.id, info.step, info.state_hash)
    assert origin.config_hash == info.fields["config_hash"]
    assert spec.evaluation["summary"]["n"] == 3
    assert spec.evaluation["mean"] == pytest.approx(run.read_status().eval_return)
    assert everything(run.path) == before
    readme = (tmp_path / "b" / "README.md").read_text()
    assert run.id in readme
    assert "mean return" in readme


@pytest.mark.parametrize(
    ("formats", "needs", "graphs"),
    [
        (("bundle",), "RLStudio: there is no policy.onnx", "It has no graph"),
        (("torch-export",), "RLStudio: there is no policy.onnx", "every graph in it (torch-export) was compared"),
        (("onnx",), "NumPy and onnxruntime, nothing else", "every graph in it (onnx) was compared"),
    ],
)
def test_the_card_says_what_the_example_needs(run, tmp_path, formats, needs, graphs):
    bundle = export_run(run, tmp_path / "b", formats=formats)
    readme, example = (bundle.read(name).decode() for name in ("README.md", "example.py"))
    assert f"python example.py               # {needs}\n" in readme
    assert graphs in readme
    assert ("import rlstudio" in example or "from rlstudio" in example) == needs.startswith("RLStudio")


def test_what_ships_earns_what_was_trained(run, tmp_path):
    bundle = export_run(run, tmp_path / "b")
    agent, cfg = load_run(run).agent, bundle.experiment()
    ours = evaluate(agent, cfg.env, episodes=5, seed=1)
    assert evaluate(bundle.policy(), cfg.env, episodes=5, seed=1) == ours
    assert evaluate(bundle.agent(), cfg.env, episodes=5, seed=1) == ours


def test_any_checkpoint(run, tmp_path):
    step = min(info.step for info in Checkpoints(run.path, run.id, lease=None).list())
    bundle = export_run(run, tmp_path / "b", checkpoint=str(step), formats=("bundle",))
    assert bundle.spec.origin.checkpoint == step
    weights = load_run(run, str(step)).agent.model.state_dict()
    assert all(np.array_equal(bundle.weights()[name], tensor.numpy()) for name, tensor in weights.items())
    best = export_run(run, tmp_path / "best", checkpoint="best", formats=("bundle",))
    assert best.spec.evaluation is not None
    with pytest.raises(UserError, match="no checkpoint"):
        export_run(run, tmp_path / "c", checkpoint="7", formats=("bundle",))


def test_from_a_run_that_is_training(tmp_path):
    cfg = config(Case("dqn", "CartPole-v1"), ckpt={"every_epochs": 1, "keep_last": 1})
    cfg = cfg.model_copy(update={"train": cfg.train.model_copy(update={"epochs": 6})})
    exported = 0
    with start(cfg, tmp_path / "runs") as session:
        for tick in session:
            if tick.report is not None and 2 <= tick.report.epoch <= 4:
                bundle = export_run(session.folder, tmp_path / f"b{tick.report.epoch}", formats=("bundle",))
                assert bundle.spec.origin.checkpoint <= tick.report.env_steps
                exported += 1
    assert exported == 3


@pytest.mark.parametrize("format", ["onnx", "torchscript", "torch-export"])
def test_a_format_that_acts_otherwise_leaves_nothing(run, tmp_path, monkeypatch, format):
    """What the exporter wrote is what is compared: here one that gets the second choice wrong."""
    file, make = graph_formats.FORMATS[format]

    def mutant(exporter):
        graph = make(exporter)
        return graph._replace(run=lambda inputs: {**(out := graph.run(inputs)), "actions": 1 - out["actions"]})

    monkeypatch.setitem(graph_formats.FORMATS, format, (file, mutant))
    with pytest.raises(ParityFailed, match=rf"^{format}: row \d+ of \d+ chooses [01], the agent [01]; nothing was"):
        export_run(run, tmp_path / "deep" / "b", formats=(format,))
    assert list(tmp_path.iterdir()) == []


def test_exporters_are_silent(run, tmp_path, capfd, recwarn):
    heard = io.StringIO()
    handler = logging.StreamHandler(heard)
    logging.getLogger().addHandler(handler)
    try:
        export_run(run, tmp_path / "b", formats=("onnx", "torchscript", "torch-export"))
    finally:
        logging.getLogger().removeHandler(handler)
    assert capfd.readouterr() == ("", "")
    assert heard.getvalue() == ""
    assert [str(warning.message) for warning in recwarn] == []


def test_a_missing_extra_is_told_with_its_command(run, tmp_path, monkeypatch):
    for module in ("onnx", "onnxscript", "onnxruntime"):
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, module, None)
            with pytest.raises(UserError, match=rf'needs {module}; run `pip install "onnx>=1.17" "onnxruntime>=1.20"'):
                export_run(run, tmp_path / "b", formats=("bundle", "onnx"))
    with pytest.raises(UserError, match="did you mean onnx"):
        export_run(run, tmp_path / "b", formats=("onx",))
    assert list(tmp_path.iterdir()) == []


def test_a_thousand_rows_are_compared():
    assert parity.ROWS >= 1000
    assert set(parity.BATCHES) == {1, 3, 257}
