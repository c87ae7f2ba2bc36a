"""From a checkpoint of a run to a bundle, which is written only if it acts as the trained agent does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rlstudio.agents.agent import Agent
from rlstudio.agents.planning import PlanningAgent
from rlstudio.agents.teams import TeamsAgent
from rlstudio.core.config import to_yaml
from rlstudio.core.spaces import Box, to_json
from rlstudio.core.version import __version__
from rlstudio.delivery import card, parity, plan_parity
from rlstudio.delivery.bundle import CONFIG, EXAMPLE, README, Bundle, check_target, write_bundle
from rlstudio.delivery.deployed import Deployed
from rlstudio.delivery.graphs import Exporter, Run, check_formats, default_formats, file_of, module_run
from rlstudio.delivery.plan import PlanSpec, planning_agent
from rlstudio.delivery.planned import DeployedPlan, facts_of
from rlstudio.delivery.shipping import shipped
from rlstudio.delivery.spec import ActingFacts, BundleOrigin, ReturnStatistics, Spec, derived
from rlstudio.envs.config import EnvConfig
from rlstudio.experiment.checkpoint.checkpoints import Loaded
from rlstudio.experiment.folder.run_folder import RunFolder
from rlstudio.experiment.lineage.lineage import recorded_lineage
from rlstudio.experiment.run.checkpoint_agent import teams_of
from rlstudio.experiment.run.load import LoadedAgent, load_run
from rlstudio.experiment.training.teams_trainer import of_team
from rlstudio.models.spec import ModelSpec


def export_run(
    folder: RunFolder,
    target: Path,
    *,
    checkpoint: str = "last",
    team: str | None = None,
    formats: tuple[str, ...] | None = None,
    usual: tuple[str, ...] | None = None,
) -> Bundle:
    """The agent of a run, or of one `team` of it, as a bundle. The run is only read, and may be training meanwhile.
    Without `formats` those of `usual`, or those of the usual ones that are installed; of an agent that plans the bundle
    alone: its graph is large, and few programs can use it."""
    usual = default_formats() if usual is None else usual
    check_formats(formats or usual)
    check_target(target)
    loaded = load_run(folder, checkpoint, team)
    info = loaded.checkpoint.info
    whole, cfg = loaded.cfg, loaded.cfg if team is None else loaded.cfg.of_team(team)
    described = shipped(cfg, loaded.agent)
    if formats is None:
        formats = ("bundle",) if isinstance(described, PlanSpec) else usual
    origin = BundleOrigin(
        kind="run",
        run_id=folder.id,
        checkpoint=info.step,
        state_hash=info.state_hash,
        config_hash=str(info.fields.get("config_hash", "")),
        lineage=_lineage(folder),
        team=team,
    )
    among = None if team is None else _Among(teams_of(whole, loaded.checkpoint), team)
    return export_agent(
        loaded.agent,
        target,
        model=described,
        formats=formats,
        name=cfg.name if team is None else f"{cfg.name}-{team}",
        algo=cfg.policy.algo,
        origin=origin,
        env=cfg.eval_env,
        config_yaml=to_yaml(whole),
        evaluation=_evaluation(loaded) if whole.eval.team == team else None,
        reward_scale=loaded.reward_scale,
        returns=_returns(loaded, "reward_scale" if team is None else of_team(team, "reward_scale")),
        among=among,
    )


class _Among(NamedTuple):
    """With whom the agent of a team plays when it is compared."""

    teams: TeamsAgent
    team: str


def export_agent(
    agent: Agent,
    target: Path,
    *,
    model: ModelSpec | PlanSpec,
    formats: tuple[str, ...],
    name: str,
    algo: str,
    origin: BundleOrigin,
    env: EnvConfig | None,
    config_yaml: str | None = None,
    evaluation: Mapping[str, object] | None = None,
    reward_scale: float | None = None,
    returns: ReturnStatistics | None = None,
    among: _Among | None = None,
) -> Bundle:
    """Any agent as a bundle, after every graph was checked to act as the agent does."""
    check_formats(formats)
    check_target(target)
    seed = 0 if env is None else env.seed
    if isinstance(model, PlanSpec):
        assert isinstance(agent, PlanningAgent)
        assert env is not None  # a plan comes from a run
        compared = _compared_plan(agent, algo, model, formats, env, seed)
    else:
        compared = _compared(agent, formats, env, seed, among)
    spec = Spec(
        format=1,
        rlstudio=__version__,
        name=name,
        algo=algo,
        env_id=None if env is None else env.id,
        origin=origin,
        model=model if isinstance(model, ModelSpec) else None,
        plan=model if isinstance(model, PlanSpec) else None,
        observation=to_json(agent.spaces.observation),
        action=to_json(agent.spaces.action),
        frame_stack=_frame_stack(agent, env),
        evaluation=None if evaluation is None else dict(evaluation),
        reward_scale=reward_scale,
        returns=returns,
        parity={"rows": compared.rows, "batches": list(parity.BATCHES), "formats": compared.agreed},
        formats={format: file_of(format) for format in formats if format != "bundle"},
        derived=derived(agent.spaces, model if isinstance(model, ModelSpec) else None, compared.facts),
    )
    others = {README: card.readme(spec), EXAMPLE: card.example(spec), **compared.graphs}
    if config_yaml is not None:
        others[CONFIG] = config_yaml.encode()
    return write_bundle(target, spec, weights_of(agent), others)


class _Compared(NamedTuple):
    """What a bundle is made of, once it was compared with the agent."""

    rows: int
    agreed: dict[str, dict[str, float]]
    graphs: dict[str, bytes]
    facts: ActingFacts


def _compared(
    agent: Agent, formats: tuple[str, ...], env: EnvConfig | None, seed: int, among: _Among | None
) -> _Compared:
    policy = Deployed(agent)
    if env is None:
        recorded = parity.made_up_rows(agent, policy, seed)
    elif among is None:
        recorded = parity.played_rows(agent, policy, env, seed)
    else:
        recorded = parity.team_rows(agent, policy, among.teams, among.team, env, seed)

    def checked(name: str, run: Run) -> dict[str, float]:
        return parity.check(name, run, policy, recorded, agent.spaces).to_json()

    # The module that is exported, before any exporter: a difference here would be in every format.
    agreed = {"module": checked("module", module_run(policy, policy))}
    graphs = _graphs(policy, formats, agreed, checked)
    return _Compared(len(recorded), agreed, graphs, ActingFacts.of(agent.model))


def _compared_plan(
    agent: PlanningAgent, algo: str, plan: PlanSpec, formats: tuple[str, ...], env: EnvConfig, seed: int
) -> _Compared:
    facts = facts_of(agent)
    has_graphs = any(format != "bundle" for format in formats)
    policy = DeployedPlan(agent) if has_graphs else None  # refuses before minutes of planning
    recorded = plan_parity.played_plans(agent, env, seed)
    rebuilt = planning_agent(algo, plan, agent.spaces, weights_of(agent))
    agreed = {"bundle": plan_parity.check_rebuilt(agent, rebuilt, recorded, seed).to_json()}
    graphs: dict[str, bytes] = {}
    if policy is not None:

        def checked(name: str, run: Run) -> dict[str, float]:
            return plan_parity.check_graph(name, run, policy, recorded).to_json()

        graphs = _graphs(policy, formats, agreed, checked)
    return _Compared(sum(len(step.actions) for step in recorded), agreed, graphs, facts)


def _graphs(
    policy: Deployed | DeployedPlan,
    formats: tuple[str, ...],
    agreed: dict[str, dict[str, float]],
    checked: Callable[[str, Run], dict[str, float]],
) -> dict[str, bytes]:
    """The files of the formats, each compared."""
    graphs, exporter = {}, Exporter(policy)
    for format in formats:
        if format != "bundle":
            graph = exporter.graph(format)
            agreed[format] = checked(format, graph.run)
            graphs[file_of(format)] = graph.data
    return graphs


def _returns(loaded: LoadedAgent, name: str) -> ReturnStatistics | None:
    """What rewards were scaled by in training, by the name and form that `RewardScale` has in a checkpoint."""
    state = loaded.checkpoint.content["trainer_state"].get(name)
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
        name: place and {key: value for key, value in place.items() if key not in ("root", "files")}
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
