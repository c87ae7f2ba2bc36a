"""From a checkpoint of a run to a bundle, which is written only if it acts as the trained agent does."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from rlstudio.agents.agent import Agent
from rlstudio.agents.rebuild import model_spec
from rlstudio.core.config import to_yaml
from rlstudio.core.errors import Incompatible
from rlstudio.core.spaces import Box, to_json
from rlstudio.core.version import __version__
from rlstudio.delivery import card, parity
from rlstudio.delivery.bundle import CONFIG, EXAMPLE, README, Bundle, check_target, write_bundle
from rlstudio.delivery.deployed import Deployed
from rlstudio.delivery.graphs import Exporter, check_formats, default_formats, file_of, module_run
from rlstudio.delivery.spec import ActingFacts, BundleOrigin, ReturnStatistics, Spec, derived
from rlstudio.envs.config import EnvConfig
from rlstudio.experiment.checkpoint.checkpoints import Loaded
from rlstudio.experiment.folder.run_folder import RunFolder
from rlstudio.experiment.lineage.lineage import recorded_lineage
from rlstudio.experiment.run.load import LoadedAgent, load_run
from rlstudio.models.spec import ModelSpec


def export_run(
    folder: RunFolder, target: Path, *, checkpoint: str = "last", formats: tuple[str, ...] | None = None
) -> Bundle:
    """The agent of a run as a bundle, with the usual formats that are installed where none are asked for. The run is
    only read, and may be training meanwhile."""
    formats = default_formats() if formats is None else formats
    check_formats(formats)
    check_target(target)
    loaded = load_run(folder, checkpoint)
    cfg, info = loaded.cfg, loaded.checkpoint.info
    if loaded.agent.acting == "planner":
        raise Incompatible(
            f"run {folder.id}: {cfg.policy.algo} searches ahead in a model at every step, which no graph from"
            " observations to actions can hold; act with it in Python (load_agent), or train ppo, dqn or sac to export"
        )
    origin = BundleOrigin(
        kind="run",
        run_id=folder.id,
        checkpoint=info.step,
        state_hash=info.state_hash,
        config_hash=str(info.fields.get("config_hash", "")),
        lineage=_lineage(folder),
    )
    return export_agent(
        loaded.agent,
        target,
        model=model_spec(loaded.agent.model),
        formats=formats,
        name=cfg.name,
        algo=cfg.policy.algo,
        origin=origin,
        env=cfg.env,
        config_yaml=to_yaml(cfg),
        evaluation=_evaluation(loaded),
        reward_scale=loaded.reward_scale,
        returns=_returns(loaded),
    )


def export_agent(
    agent: Agent,
    target: Path,
    *,
    model: ModelSpec,
    formats: tuple[str, ...],
    name: str,
    algo: str,
    origin: BundleOrigin,
    env: EnvConfig | None,
    config_yaml: str | None = None,
    evaluation: Mapping[str, object] | None = None,
    reward_scale: float | None = None,
    returns: ReturnStatistics | None = None,
) -> Bundle:
    """Any agent as a bundle, after every graph was checked to act as the agent does."""
    check_formats(formats)
    check_target(target)
    policy = Deployed(agent)
    seed = 0 if env is None else env.seed
    recorded = parity.made_up_rows(agent, policy, seed) if env is None else parity.played_rows(agent, policy, env, seed)
    # The module that is exported, before any exporter: a difference here would be in every format.
    agreed = {"module": parity.check("module", module_run(policy, policy), policy, recorded, agent.spaces).to_json()}
    graphs: dict[str, bytes] = {}
    exporter = Exporter(policy)
    chosen = [format for format in formats if format != "bundle"]
    for format in chosen:
        graph = exporter.graph(format)
        agreed[format] = parity.check(format, graph.run, policy, recorded, agent.spaces).to_json()
        graphs[file_of(format)] = graph.data
    spec = Spec(
        format=1,
        rlstudio=__version__,
        name=name,
        algo=algo,
        env_id=None if env is None else env.id,
        origin=origin,
        model=model,
        observation=to_json(agent.spaces.observation),
        action=to_json(agent.spaces.action),
        frame_stack=_frame_stack(agent, env),
        evaluation=None if evaluation is None else dict(evaluation),
        reward_scale=reward_scale,
        returns=returns,
        parity={"rows": len(recorded), "batches": list(parity.BATCHES), "formats": agreed},
        formats={format: file_of(format) for format in chosen},
        derived=derived(agent.spaces, model, ActingFacts.of(agent.model)),
    )
    others = {README: card.readme(spec), EXAMPLE: card.example(spec), **graphs}
    if config_yaml is not None:
        others[CONFIG] = config_yaml.encode()
    return write_bundle(target, spec, weights_of(agent), others)


def _returns(loaded: LoadedAgent) -> ReturnStatistics | None:
    """What rewards were scaled by in training, by the name and form that `RewardScale` has in a checkpoint."""
    state = loaded.checkpoint.content["trainer_state"].get("reward_scale")
    if not isinstance(state, dict) or not {"count", "mean", "square"} <= state.keys() or float(state["count"]) <= 0:
        return None
    count, mean, square = (float(np.asarray(state[name]).reshape(())) for name in ("count", "mean", "square"))
    return ReturnStatistics(count=count, mean=mean, variance=square / count)


def _lineage(folder: RunFolder) -> dict[str, object] | None:
    """Code and packages, but neither host nor user nor paths: a bundle is given away."""
    recorded = recorded_lineage(folder)
    if recorded is None:
        return None
    code = {
        name: place and {key: value for key, value in place.items() if key != "root"}
        for name, place in (recorded.get("code") or {}).items()
    }
    return {"code": code, **{key: recorded.get(key) for key in ("lock_hash", "versions", "platform")}}


def weights_of(agent: Agent) -> dict[str, np.ndarray]:
    return {name: tensor.numpy(force=True) for name, tensor in agent.model.state_dict().items()}


def _frame_stack(agent: Agent, env: EnvConfig | None) -> dict[str, object] | None:
    """How many frames are one observation, by the space or by the wrapper that stacks them."""
    space = agent.spaces.observation
    if isinstance(space, Box) and space.stack is not None:
        return {"size": space.stack.size, "padding": space.stack.padding}
    for name, kwargs in [] if env is None else env.wrapper_calls():
        if name == "FrameStackObservation":
            return {"size": kwargs.get("stack_size"), "padding": kwargs.get("padding_type", "reset")}
    return None


def _evaluation(loaded: LoadedAgent) -> dict[str, object] | None:
    """The evaluation of these weights, if the run made one: after training, or when they became the best."""
    checkpoint: Loaded = loaded.checkpoint
    session = checkpoint.content["trainer_state"]["session"]
    final, best = session["final"], session["best"]
    if final is not None and final["epoch"] == checkpoint.info.fields.get("epoch"):
        summary = final["summary"]
        interval = [summary["ci_low"], summary["ci_high"]]
        return {"mean": summary["mean"], "interval": interval, "when": "after training", "summary": summary}
    if best is not None and int(best["step"]) == checkpoint.info.step:
        return {"mean": best["return"], "when": "during training"}
    return None
