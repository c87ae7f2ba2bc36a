"""Ranks that torchrun has started: the same command twice, with its variables, is one run."""

import os
import subprocess

import torch.distributed as dist

from rlstudio.core.run_state import RunState
from rlstudio.experiment.folder.run_folder import list_runs
from support.deadlines import PATIENCE
from support.experiments import tiny_yaml
from support.warm_python import RLCTL


def test_two_processes_of_torchrun_are_one_run_and_go_on_as_one(tmp_path):
    variables = {
        "WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "TORCHELASTIC_USE_AGENT_STORE": "True",  # the store is there already, as with torchrun itself
    }
    file, runs = tmp_path / "experiment.yaml", ["--runs-dir", str(tmp_path / "runs")]
    file.write_text(tiny_yaml("ppo", runtime={"learners": 2}))

    def both(*arguments):
        store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        processes = [
            subprocess.Popen(
                [RLCTL, *arguments, *runs],
                env={**os.environ, **variables, "MASTER_PORT": str(store.port), "RANK": str(rank)},
                stdout=subprocess.PIPE,
                text=True,
            )
            for rank in range(2)
        ]
        outputs = [process.communicate(timeout=PATIENCE)[0] for process in processes]
        assert [process.returncode for process in processes] == [0, 0]
        assert outputs[1] == ""
        return outputs[0]

    assert "2 envs" in (said := both("launch", "-f", str(file)))
    assert "2 learners over gloo" in said
    assert "goes on     from 192 steps" in both("resume", "last", "train.epochs=4")
    (status,) = list_runs(tmp_path / "runs")
    assert (status.state, status.epoch) == (RunState.COMPLETED, 4)
    shown = subprocess.run([RLCTL, "show", "last", *runs], stdout=subprocess.PIPE, text=True, check=True).stdout
    assert "learners      2 over gloo" in shown
