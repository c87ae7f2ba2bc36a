"""From the self_play section to environments with opponents."""

from __future__ import annotations

from functools import partial

from rlstudio.core.catalog import WORLDS
from rlstudio.core.contracts import Agent, ForPlanning, VecEnv
from rlstudio.core.errors import ConfigError
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.seats.config import PLANNER, SelfPlayConfig
from rlstudio.envs.seats.seated import refuse_seats
from rlstudio.envs.worlds.catalog import make_world
from rlstudio.experiment.self_play.opponents import SelfPlay, SelfPlayVecEnv
from rlstudio.planners.games import SearchPlayer, TurnGame


def with_opponents(env: VecEnv, cfg: SelfPlayConfig, env_cfg: EnvConfig) -> SelfPlayVecEnv:
    """The environments as the learner meets them: one seat is its own."""
    refuse_seats(env, "self_play", env_cfg.id)
    game = searchable(env_cfg, "self_play.opponents: planner") if PLANNER in cfg.opponents else None
    search = partial(search_by, game=game, simulations=cfg.simulations)
    return SelfPlayVecEnv(env, SelfPlay(cfg, env_cfg, env, search), env_cfg.seed)


def search_by(learner: Agent, game: TurnGame | None, simulations: int, greedy: bool = False) -> SearchPlayer:
    """A tree search that follows what the learner's network says at that moment."""
    assert game is not None
    model = getattr(learner, "model", None)
    if not isinstance(model, ForPlanning):
        return SearchPlayer(game, simulations, None, None, greedy)
    return SearchPlayer(game, simulations, model.policy_for_plan(), model.value_for_plan({}), greedy)


def searchable(cfg: EnvConfig, field: str) -> TurnGame:
    """The game to search in; ConfigError where it cannot be."""
    world: object = make_world(cfg.id, cfg.kwargs) if cfg.id in WORLDS else None
    if not isinstance(world, TurnGame):
        raise ConfigError(f"{field}: {cfg.id} cannot be searched; that needs a native World with `states_of`")
    if cfg.params:
        raise ConfigError(
            f"{field}: it would search {cfg.id} with the parameters of the world, and env.params has others"
            f" ({', '.join(cfg.params)}); leave one of the two out"
        )
    return world
