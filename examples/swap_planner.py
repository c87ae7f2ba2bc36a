"""Planner, dynamics and policy loss are parts: swapping one is one line.  python swap_planner.py"""

from rlstudio.experiment.config.experiment import load_experiment
from rlstudio.experiment.judging.evaluate import evaluate
from rlstudio.experiment.training.build import build_runtime, build_trainer
from rlstudio.experiment.training.loop import Position, train

SMALL = [  # seconds instead of minutes, which is enough to balance for 50 steps
    "train.epochs=2",
    "train.steps_per_epoch=30",
    "train.learning_starts=30",
    "train.train_every=10",
    "train.gradient_steps=20",
    "train.planner.horizon=5",
    "train.planner.candidates=48",
    "train.planner.iterations=2",
]
SWAPS = {
    "as it is": "train.planner.kind=cem",
    "another planner": "train.planner.kind=mppi",
    "guided by the policy": "train.planner.kind=guided",
    "the world's equations": "train.dynamics.kind=analytic",
    "one network": "train.dynamics.kind=mlp",
    "another policy loss": "train.policy_loss=advantage",
}

for name, line in SWAPS.items():
    cfg = load_experiment("configs/mbmpc/cartpole.yaml", [*SMALL, line])
    trainer = build_trainer(cfg, build_runtime(cfg))
    for _ in train(trainer, cfg.train, Position()):
        pass
    world = cfg.env.model_copy(update={"max_episode_steps": 50})
    print(f"{name:22} {line:34} return {evaluate(trainer.agent, world, episodes=2, seed=1).summary.mean:.0f} of 50")
