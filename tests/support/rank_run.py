"""A run that several ranks learn, as a process of its own: `python -m support.rank_run RUNS_DIR CONFIG EPOCH`.

After that epoch it kills itself. The number of the process that it started as a rank is left in `RUNS_DIR/rank`.
"""

import json
import os
import signal
import sys
from pathlib import Path

from rlstudio.experiment.config.experiment import experiment_from
from rlstudio.scale.ranks.starting.children import Children
from support.sessions import start
from support.warm_python import fork_from_here_on


def main(runs_dir: Path, config: str, epoch: int) -> None:
    fork_from_here_on()
    runs_dir.mkdir()
    original = Children._started

    def noted(self: Children, *arguments: object) -> object:
        child = original(self, *arguments)
        (runs_dir / "rank").write_text(str(child.process.pid))
        return child

    Children._started = noted
    with start(experiment_from(json.loads(config)), runs_dir) as session:
        for tick in session:
            if tick.report is not None and tick.epoch == epoch:
                os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
