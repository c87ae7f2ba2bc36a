"""What importing an algorithm brings along: who learns from fresh rollouts pays for no replay, dataset or worker."""

import subprocess
import sys

import pytest

LOADED = "import sys, rlstudio.algos.{}; print(*sorted(name for name in sys.modules))"


@pytest.mark.parametrize("algo", ["ppo", "a2c"])
def test_fresh_rollouts_need_neither_replay_nor_datasets(algo):
    done = subprocess.run([sys.executable, "-c", LOADED.format(algo)], capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    assert f"rlstudio.algos.{algo}" in loaded
    for name in ("rlstudio.data.replay", "rlstudio.data.datasets", "rlstudio.data.runtime", "gymnasium", "minari"):
        assert name not in loaded
