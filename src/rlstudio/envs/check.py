"""Is this env fit to train on? Findings in plain words, before hours are spent on it.

Each check works on env objects of its own.
"""

from __future__ import annotations

import numpy as np

from rlstudio.core.action_mask import ActionMask
from rlstudio.core.errors import RLStudioError
from rlstudio.core.spaces import Spaces
from rlstudio.envs.check_params import param_findings
from rlstudio.envs.check_play import Amount, Play
from rlstudio.envs.check_report import WORN, EnvReport
from rlstudio.envs.check_world import violations
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.gym.probe import PROBE_SEEDS, episode_digest, permitted, random_actions, used_differs
from rlstudio.envs.gym.recipe import Recipe, one_line
from rlstudio.envs.gym.spaces import convert_spaces
from rlstudio.envs.gym.sync import GymnasiumVecEnv
from rlstudio.envs.make import make_vec_env, resolve_vectorization
from rlstudio.envs.pettingzoo_ids import is_pettingzoo
from rlstudio.envs.worlds.catalog import exists_only_here, make_world

USUAL = Amount()


def check_env(cfg: EnvConfig, amount: Amount = USUAL) -> EnvReport:
    """Try the env out; whatever it does wrong becomes a finding, never an exception."""
    report = EnvReport(cfg.id)
    try:
        if is_pettingzoo(cfg.id):
            from rlstudio.envs.pettingzoo.check import check_team

            check_team(cfg, amount, report)
            return report
        recipe = Recipe(cfg)
        if resolve_vectorization(cfg) == "vector":
            from rlstudio.envs.vector.check_vector import check_vector

            check_vector(recipe, amount, report)
            return report
        if exists_only_here(cfg) and _breaks_the_contract_of_worlds(cfg, report):
            return report
        with recipe.opened() as env:
            spaces = convert_spaces(env, cfg.id)
            play = Play(env, spaces, recipe.limit)
            play.run(amount)
        _report_play(play, recipe.limit, report)
        if not play.failed:
            _check_repetition(recipe, spaces, amount.compared, report)
            _check_replay(cfg, spaces, amount.compared, report)
            for severity, text in param_findings(cfg):
                report.add(severity, text)
    except RLStudioError as error:
        report.add("error", str(error))
    except (Exception, SystemExit) as error:
        report.add("error", f"raised {one_line(error)}", "raised")
    return report


def _breaks_the_contract_of_worlds(cfg: EnvConfig, report: EnvReport) -> bool:
    """Also where there is nothing more to be asked: several agents are no plain env that could be played."""
    world = make_world(cfg.id, cfg.kwargs)
    for text in violations(world):
        report.add("error", text)
    if world.agents > 1:
        report.add("info", f"{world.agents} agents: its functions were checked, and nothing was played")
        for severity, text in param_findings(cfg) if report.ok else ():
            report.add(severity, text)
    elif not hasattr(world, "recall"):
        report.add("info", "without `recall` planners cannot use its equations")
    return not report.ok or world.agents > 1


def _report_play(play: Play, limit: int | None, report: EnvReport) -> None:
    report.steps, report.episodes, report.seconds = play.steps, play.episodes, play.seconds
    for kind, text in sorted(play.findings.items(), key=lambda item: item[1]):
        severity, _, what = text.partition(": ")
        report.add(severity, what, kind.partition(" ")[0])  # type: ignore[arg-type]
    if not play.episodes and limit is None and not play.failed:
        text = f"no episode ended within {play.steps:,} random steps and there is no env.max_episode_steps"
        report.add("warning", text, "endless")
    if play.info_keys:
        report.add("info", f"numbers in its info, for env.infos: {', '.join(sorted(play.info_keys))}")


def _check_repetition(recipe: Recipe, spaces: Spaces, steps: int, report: EnvReport) -> None:
    for seed in PROBE_SEEDS:
        first, second = (_digest(recipe, spaces, seed, steps) for _ in range(2))
        if first != second:
            text = f"two fresh envs with seed {seed} and equal actions differ: resume cannot be exact"
            report.add("error", text, "unseeded")
            return
    if used_differs(recipe, spaces):
        report.add("warning", WORN, "worn")


def _digest(recipe: Recipe, spaces: Spaces, seed: int, steps: int) -> int:
    """Of a fresh env."""
    with recipe.opened() as env:
        return episode_digest(env, spaces, seed, steps)


def _check_replay(cfg: EnvConfig, spaces: Spaces, steps: int, report: EnvReport) -> None:
    """Leave an episode in the middle and find the place again in another object."""
    first, second = (make_vec_env(cfg, 2, vectorization="sync") for _ in range(2))
    assert isinstance(first, GymnasiumVecEnv)
    try:
        observations, mask = first.reset(), ActionMask.of(spaces)
        lanes = [random_actions(spaces, seed, steps) for seed in PROBE_SEEDS[:2]]
        for actions in zip(*lanes, strict=True):
            taken = [permitted(mask, observations, row, action) for row, action in enumerate(actions)]
            observations = first.step(np.array(taken)).observations
        second.seek(first.position())
        if second.exact:
            report.add("error", f"replaying an episode does not lead to the same place: {second.exact}", "replay")
    finally:
        first.close()
        second.close()
