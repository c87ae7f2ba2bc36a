"""What a worker does: it acts in its slice of the environments with the learner's newest weights, and gives back whole
rollouts, each with the state that follows it, from which a replacement could go on."""

from __future__ import annotations

from typing import cast

import numpy as np
from torch import nn

from rlstudio.core.contracts import State
from rlstudio.core.rng import Rng
from rlstudio.data.collect.collector import VectorActor
from rlstudio.data.collect.noise import Share
from rlstudio.models.weights import load_weights
from rlstudio.scale.workers.acting_parts import acting_parts
from rlstudio.scale.workers.job import RolloutJob


class SliceWorker:
    """Answers requests, which are States with an `op`: `begin` first, then `load`, `collect`, `state`."""

    def __init__(self, job: RolloutJob, first: int, count: int, total: int) -> None:
        self._job = job
        self._share = Share(first, total)
        self._env = job.make_envs(first, count)
        self._acting: VectorActor | None = None
        self._version = -1

    @classmethod
    def of(cls, request: State) -> SliceWorker:
        """From a request to `begin`."""
        return cls(RolloutJob.from_json(request["job"]), request["first"], request["count"], request["total"])

    def answer(self, request: State, weights: State) -> State:
        """`weights` are the newest, of the version that the request names."""
        match request["op"]:
            case "begin":
                return self._begin(request)
            case "load":
                self.acting.load_state_dict(request["state"])
                return self._facts(self._env.restarted)
            case "collect":
                self._take_weights(request["version"], weights)
                self.acting.progress(request["progress"])
                packer = self.acting.fill(request["steps"])
                return {"columns": packer.columns(), "state": self._state(), **self._facts()}
            case "state":
                return {"state": self.acting.state_dict(), **self._facts()}
        raise ValueError(f"a worker knows no {request['op']!r}")

    @property
    def acting(self) -> VectorActor:
        assert self._acting is not None, "begin comes first"
        return self._acting

    def _begin(self, request: State) -> State:
        """Fresh episodes with random numbers of this address; of a run that was rolled back it is another one."""
        parts = acting_parts(self._job, self._env.spaces)
        rng = Rng(request["seed"], request["path"])
        place = {"first_env": request["first_env"], "run_envs": request["run_envs"], "share": self._share}
        self._acting = VectorActor(self._env, parts.agent, rng, parts.explore, **place)
        self._version = -1
        return self._facts()

    def _take_weights(self, version: int, weights: State) -> None:
        if version != self._version:
            model = getattr(self.acting.agent, "model", None)
            if isinstance(model, nn.Module):
                load_weights(model, cast("dict[str, np.ndarray]", weights))
            self._version = version

    def _state(self) -> State:
        """As a checkpoint has it, but without trying out whether the environments repeat themselves."""
        position = getattr(self._env, "unchecked_position", self._env.position)
        return self.acting.state_at(position())

    def _facts(self, restarted: object = ()) -> State:
        return {"exact": self._env.exact, "restarted": list(cast("tuple[int, ...]", restarted))}

    def close(self) -> None:
        self._env.close()
