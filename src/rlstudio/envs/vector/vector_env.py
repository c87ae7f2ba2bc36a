"""A `gymnasium.vector.VectorEnv` of the user's (`vectorization: vector`): it steps all its copies in one call.

Its autoreset mode says where the true successor of an episode's last step is:

    SAME_STEP  in infos["final_obs"]; the observation is the next episode's first one already
    NEXT_STEP  in the observation; the step after it resets the copy, takes no action of it, and is no transition: that
               row is not `active`
    DISABLED   in the observation; the ended copies are reset at once by reset(options={"reset_mask": ended})

Only the first episodes are seeded, by the one number that `reset(seed=...)` takes, and no state can be read: `seek`
resets with another seed, and every open episode begins anew. `exact` says so from the start.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from rlstudio.core.action_mask import ACTION_MASK, ActionMask
from rlstudio.core.contracts import Array, State, Step
from rlstudio.core.errors import EnvFault, RLStudioError
from rlstudio.core.spaces import Discrete, MultiDiscrete
from rlstudio.envs.gym.env_block import BrokenContract, describe_fault
from rlstudio.envs.gym.plain_env import check_spaces, plain_spaces
from rlstudio.envs.gym.recipe import Recipe, close_quietly, reason_of
from rlstudio.envs.gym.rows import Buffers, Misfit
from rlstudio.envs.gym.spaces import convert_vector_spaces
from rlstudio.envs.new_episodes import new_episodes
from rlstudio.envs.seeds import EpisodeNoise
from rlstudio.envs.vector.arrays import EVERYWHERE, RowMisfit, info_column, read_column, read_final, reader
from rlstudio.envs.vector.make_vector import make_vector
from rlstudio.envs.worlds.kernel import write

FINAL_OBS, FINAL_INFO = "final_obs", "final_info"
NEVER = 2**62  # a limit no episode reaches
MOST_ACTIONS = 8  # that a message shows
LOST = "with autoreset SAME_STEP the last observation must be there, or learning sees that of the next episode"


class AdaptedVectorEnv:
    """The arrays of a Step are reused by the next one."""

    vectorization = "vector"
    agents = 1
    restart_reasons = None
    exact: str | None = (
        "a VectorEnv can neither seed nor replay a single episode; a resumed run goes on with new episodes from a new"
        " seed"
    )

    def __init__(
        self,
        recipe: Recipe,
        num_envs: int,
        seed: int,
        wrap: Callable[[VectorEnv], VectorEnv] = lambda env: env,
        first_env: int = 0,
    ) -> None:
        """`wrap` puts somebody between this and the env who looks on, as `check` does. In the run these envs have the
        numbers from `first_env` on."""
        self._id = recipe.cfg.id
        self.num_envs, self._first_env = num_envs, first_env
        self.restarted: Sequence[int] = ()
        env, self.mode, limit = make_vector(recipe, num_envs)
        self._env = wrap(env)
        try:
            self.spaces = convert_vector_spaces(self._env, self._id, recipe.cfg.infos)
            if recipe.has_plain_env:
                check_spaces(plain_spaces(recipe), self.spaces, f"the vector_entry_point of {self._id}")
        except RLStudioError:
            self.close()
            raise
        self._limit = NEVER if limit is None else limit
        self._noise = EpisodeNoise(seed, num_envs, 1)
        self._mask = ActionMask.of(self.spaces)
        self._start, self._action_dtype = _first_choice(self.spaces.action), self._env.single_action_space.dtype
        self._device: Any = None  # of the tensors that it gives, so that it also gets some
        self._episodes, self._elapsed = np.zeros(num_envs, np.int64), np.zeros(num_envs, np.int64)
        self._clock = 0
        self._rows = rows = Buffers(self.spaces, num_envs)
        self._read = reader(self.spaces.observation, rows.observations)
        self._read_successors = reader(self.spaces.observation, rows.successors)
        self._active = np.ones(num_envs, bool)
        self._to_reset = np.zeros(num_envs, bool)  # by the next step, which takes no action of these copies
        self._quiet = rows.quiet_step()._replace(active=self._active if self.resets_take_a_step else None)
        self._eventful = self._quiet._replace(successors=rows.successors)

    @property
    def resets_take_a_step(self) -> bool:
        """Whether an ended copy is reset by a step of its own, whose row is no transition."""
        return self.mode is AutoresetMode.NEXT_STEP

    # -- the vector contract ----------------------------------------------------------------------------------------

    def describe_episode(self, env: int, ago: int = 0) -> str:
        return f"episode {int(self._episodes[env]) - ago} (after reset(seed={self._seed}))"

    def reset(self) -> Array:
        self._episodes[:] = 0
        self.restarted = ()
        return self._begin()

    def step(self, actions: np.ndarray) -> Step:
        rows = self._rows
        self._clock += 1
        self._elapsed += ~self._to_reset
        try:
            observations, rewards, terminated, truncated, infos = self._env.step(self._passed(actions))
            self._read(observations, EVERYWHERE)
            read_column(rewards, rows.rewards, "reward")
            read_column(terminated, rows.terminated, "terminated")
            read_column(truncated, rows.truncated, "truncated")
            rows.truncated |= self._elapsed >= self._limit
            step = self._finish(infos)
            self._check_masks()
            return step
        except (Exception, SystemExit) as error:
            raise self._fault(actions, error) from error

    def position(self) -> State:
        return {
            "kind": "vector",
            "id": self._id,
            "episodes": self._episodes.copy(),
            "elapsed": self._elapsed.copy(),
        }

    def seek(self, position: State) -> Array:
        """New episodes in every copy; those that were in the middle of one are `restarted`."""
        what = "the vector environment"
        self._episodes[:], self.restarted = new_episodes(position, "vector", self._id, self.num_envs, what)
        return self._begin()

    def close(self) -> None:
        close_quietly(self._env)

    # -- one step ---------------------------------------------------------------------------------------------------

    @property
    def _seed(self) -> int:
        """Of the last reset. Every seek counts the episodes up, so none is used twice."""
        return self._noise.seed(self._first_env, self._begun)

    def _begin(self) -> Array:
        self._begun = int(self._episodes.sum())
        self._clock = 0
        self._elapsed[:] = 0
        self._to_reset[:] = False
        try:
            observations, _ = self._env.reset(seed=self._seed)
            self._device = _device_of(observations)
            self._read(observations, EVERYWHERE)
            self._check_masks()
        except (Exception, SystemExit) as error:
            raise self._fault(None, error) from error
        return self._rows.observations

    def _passed(self, actions: np.ndarray) -> Any:
        """A copy, as the env counts, in the kind of array that it gives itself: it may keep or change it."""
        counted: np.ndarray = (actions + self._start).astype(self._action_dtype)
        return counted if self._device is None else _tensor(counted, self._device)

    def _finish(self, infos: Mapping[str, Any]) -> Step:
        """What the mode says about copies whose episode ended, now or in the step before."""
        rows, ended = self._rows, self._rows.ended()
        self._note_infos(infos, ended)
        if self.resets_take_a_step:
            self._leave_out_resets(ended)
        if ended is None:
            return self._quiet
        self._episodes[ended] += 1
        self._elapsed[ended] = 0
        match self.mode:
            case AutoresetMode.NEXT_STEP:
                return self._quiet  # what was shown is the successor
            case AutoresetMode.SAME_STEP:
                if FINAL_OBS not in infos:
                    raise RowMisfit(int(ended.argmax()), f"its episode ended, and infos has no {FINAL_OBS!r}: {LOST}")
                read_final(infos[FINAL_OBS], self.spaces.observation, rows.successors, ended, self._read_successors)
                rows.complete_successors(ended)
            case AutoresetMode.DISABLED:
                write(rows.successors, EVERYWHERE, rows.observations)
                mask = ended.copy() if self._device is None else _tensor(ended, self._device)
                self._read(self._env.reset(options={"reset_mask": mask})[0], ended)
        return self._eventful

    def _leave_out_resets(self, ended: np.ndarray | None) -> None:
        """The rows of copies that this step has reset."""
        resets = self._to_reset
        if ended is not None and (wrong := ended & resets).any():
            raise RowMisfit(
                int(wrong.argmax()),
                "its episode ended in the step that was to reset it, by autoreset NEXT_STEP; if it resets in the same"
                " step, its metadata must say SAME_STEP",
            )
        np.logical_not(resets, out=self._active)
        self._rows.rewards[resets] = 0.0
        for column in self._rows.infos.values():
            column[resets] = np.nan
        self._to_reset = np.zeros(self.num_envs, bool) if ended is None else ended

    def _note_infos(self, infos: Mapping[str, Any], ended: np.ndarray | None) -> None:
        """Of an episode that ended with SAME_STEP the last info lies in `final_info`, if the env keeps it at all."""
        final = infos.get(FINAL_INFO) if ended is not None and self.mode is AutoresetMode.SAME_STEP else None
        if final is not None and not isinstance(final, Mapping) and self._rows.infos:
            raise Misfit(f"infos[{FINAL_INFO!r}] is a {type(final).__name__}, not a dict of arrays as infos itself is")
        for key, column in self._rows.infos.items():
            column[:] = info_column(infos, key, self.num_envs)
            if final is not None:
                column[ended] = info_column(final, key, self.num_envs)[ended]

    def _check_masks(self) -> None:
        """Where somebody is to act there must be something to do."""
        if self._mask is None:
            return
        assert isinstance(self._rows.observations, dict)
        allowed = self._rows.observations[ACTION_MASK] != 0
        for part in self._mask.parts:
            if (empty := ~allowed[:, part].any(1) & ~self._to_reset).any():
                raise RowMisfit(
                    int(empty.argmax()),
                    f"observation {ACTION_MASK!r} allows no action; end such an episode, or allow one without effect",
                )

    def _fault(self, actions: np.ndarray | None, error: BaseException) -> RLStudioError:
        if isinstance(error, RLStudioError):
            return error
        kind, what = (
            (BrokenContract, str(error)) if isinstance(error, Misfit) else (EnvFault, f"raised {reason_of(error)}")
        )
        if isinstance(error, RowMisfit):
            env, action = error.env, None if actions is None else actions[error.env]
            episode, elapsed = int(self._episodes[env]), int(self._elapsed[env])
            return kind(describe_fault(self._id, env, episode, elapsed, self._seed, action, what))
        some = "none" if actions is None else actions[:MOST_ACTIONS].tolist()
        more = ", ..." if actions is not None and len(actions) > MOST_ACTIONS else ""
        place = f"step {self._clock} after reset(seed={self._seed}), last actions {some}{more}"
        return kind(f"env {self._id} ({self.num_envs} copies): {what}; {place}")


def _first_choice(space: object) -> int | np.ndarray:
    """What is added to choices that count from 0; numbers are taken as they are."""
    match space:
        case Discrete():
            return space.start
        case MultiDiscrete() if space.start:
            return np.array(space.start)
    return 0


def _device_of(observations: Any) -> Any:
    """Of tensors; None where they are arrays."""
    first = next(iter(observations.values())) if isinstance(observations, Mapping) else observations
    return first.device if hasattr(first, "detach") else None


def _tensor(array: np.ndarray, device: Any) -> Any:
    import torch  # an env that gives tensors has imported it

    return torch.from_numpy(array.copy()).to(device)
