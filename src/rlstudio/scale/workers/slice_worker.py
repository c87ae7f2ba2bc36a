"""What a worker does: it acts in its slice of the environments with the learner's newest weights, and gives back whole
rollouts, each with the state that follows it, from which a replacement could go on."""

from __future__ import annotations

from typing import cast

import numpy as np
import torch
from torch import nn

from rlstudio.core.batch import Batch
from rlstudio.core.contracts import State
from rlstudio.core.rng import Rng
from rlstudio.data.collect.collector import VectorActor
from rlstudio.data.collect.noise import Share
from rlstudio.models.build import PolicyValueModel
from rlstudio.models.policies.distributions import log_prob
from rlstudio.models.weights import load_weights
from rlstudio.scale.workers.acting_parts import acting_parts
from rlstudio.scale.workers.job import RolloutJob


class SliceWorker:
    """Answers requests, which are States with an `op`: `begin` first, then `load`, `collect`, `state`.

    What it collects depends on the state of its slice and on the request alone: on the version of the weights that it
    names, the progress and the number of steps.
    """

    def __init__(self, job: RolloutJob, share: Share, count: int, first_env: int) -> None:
        """`share`: of the environments of this learner; `first_env` counts those of all learners."""
        self._job = job
        self._share = share
        self._env = job.make_envs(first_env, count)
        self._acting: VectorActor | None = None
        self._version = -1
        self._seed = ""

    @classmethod
    def of(cls, request: State) -> SliceWorker:
        """From a request to `begin`."""
        share = Share(request["first"], request["total"])
        return cls(RolloutJob.from_json(request["job"]), share, request["count"], request["first_env"])

    def answer(self, request: State, weights: State) -> State:
        """`weights` are those of the version that the request names."""
        match request["op"]:
            case "begin":
                return self._begin(request)
            case "load":
                self.acting.load_state_dict(request["state"])
                return self._facts(self._env.restarted)
            case "collect":
                self._take_weights(request["version"], weights)
                self.acting.progress(request["progress"])
                tag = {"version": request["version"], "seed": self._seed, "first_step": self.acting.vector_steps}
                packer = self.acting.fill(request["steps"])
                columns = packer.columns()
                if request.get("behaviour"):
                    columns["behaviour_log_probs"] = self._log_probs(packer.batch())
                return {"columns": columns, "tag": tag, "state": self._state(), **self._facts()}
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
        rng, self._seed = Rng(request["seed"], request["path"]), f"{request['seed']}{request['path']}"
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

    @torch.no_grad()
    def _log_probs(self, rollout: Batch) -> np.ndarray:
        """How likely each action was for the weights that took it, [T, B]."""
        model = cast("PolicyValueModel", getattr(self.acting.agent, "model", None))
        flat = rollout.flatten()
        policy, _ = model(**flat.only(model.reads))
        return log_prob(policy, flat.actions).view(rollout.shape).numpy()

    def _state(self) -> State:
        """As a checkpoint has it, but without trying out whether the environments repeat themselves."""
        position = getattr(self._env, "unchecked_position", self._env.position)
        return self.acting.state_at(position())

    def _facts(self, restarted: object = ()) -> State:
        return {"exact": self._env.exact, "restarted": list(cast("tuple[int, ...]", restarted))}

    def close(self) -> None:
        self._env.close()
