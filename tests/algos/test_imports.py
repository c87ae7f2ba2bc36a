"""What importing an algorithm brings along: who learns from fresh rollouts pays for no replay, dataset or worker."""

import subprocess
import sys

LOADED = "import sys, rlstudio.algos.ppo, rlstudio.algos.a2c; print(*sorted(name for name in sys.modules))"


def test_fresh_rollouts_need_neither_replay_nor_datasets():
    """Both in one process: what one of them brought along would be there."""
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    assert {"rlstudio.algos.ppo", "rlstudio.algos.a2c"} <= {*loaded}
    for name in ("rlstudio.data.replay", "rlstudio.data.datasets", "rlstudio.data.runtime", "gymnasium", "minari"):
        assert name not in loaded
