"""RLStudio from Python: the same runs, the same store and the same queue as `rlctl`.

    from rlstudio import orchestrator

    run = orchestrator.run("configs/ppo/cartpole.yaml", "train.lr=1e-3")      # here, until it is done
    run.metrics("eval/return_mean")                                            # a DataFrame where there is pandas
    agent = run.agent()                                                        # acts: agent.act(observation)

    with orchestrator.session("configs/ppo/cartpole.yaml") as session:         # the same, one training step at a time
        for tick in session:
            ...

    runs = [orchestrator.launch(config, seed=seed) for seed in range(4)]       # in the background, as slots are free
    for run in runs:
        run.wait()

    orchestrator.compare("lr1e-3", "lr1e-4").groups[1].improvement             # groups of runs, by the names they share
    orchestrator.plot("lr1e-3", "lr1e-4", out="lr.png")

A configuration is a file, a dict or an `ExperimentConfig`; overrides are written as on the command line. Where runs lie
is `runs/`, the variable `RLSTUDIO_RUNS_DIR`, or `runs_dir`.
"""

from rlstudio.orchestrator.actions import (
    fork,
    get,
    launch,
    pause,
    promote,
    remove_sweep,
    resume,
    rollback,
    run,
    runs,
    session,
    stop,
    stop_sweep,
    sweep,
)
from rlstudio.orchestrator.groups import compare, plot
from rlstudio.orchestrator.handle import Run

__all__ = [
    "Run",
    "compare",
    "fork",
    "get",
    "launch",
    "pause",
    "plot",
    "promote",
    "remove_sweep",
    "resume",
    "rollback",
    "run",
    "runs",
    "session",
    "stop",
    "stop_sweep",
    "sweep",
]
