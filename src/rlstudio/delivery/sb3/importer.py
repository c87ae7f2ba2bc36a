"""A policy trained by Stable-Baselines3 as a bundle: PPO, A2C, DQN, SAC and TD3 with an MLP.

Their `model.zip` holds cloudpickle inside JSON and torch files with pickle inside. Of the JSON only plain numbers and
text are used, of `policy.pth` only the tensors (see `torch_archive`): nothing in the archive is ever executed. The
spaces come from the shapes of the tensors, and from the environment where one is named. The statistics of a
`VecNormalize`, a file of their own (see `vec_normalize`), become the normalizer of the Model and the scale of rewards.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from torch import Tensor

from rlstudio.agents.rebuild import blank_agent
from rlstudio.core.config import to_yaml
from rlstudio.core.errors import Incompatible
from rlstudio.core.spaces import Box, Dict, Discrete, Spaces, describe
from rlstudio.delivery.bundle import Bundle, check_target
from rlstudio.delivery.export import export_agent
from rlstudio.delivery.graphs import check_formats, default_formats
from rlstudio.delivery.sb3.torch_archive import read_torch_archive
from rlstudio.delivery.sb3.vec_normalize import VecNormalizeStatistics, read_vec_normalize
from rlstudio.delivery.sb3.zip_archive import Archive, BadArchive, read_archive
from rlstudio.delivery.spec import BundleOrigin, ReturnStatistics
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.make import make_vec_env
from rlstudio.experiment.config.algorithm import train_section
from rlstudio.experiment.config.experiment import experiment_from
from rlstudio.models.config import NetworkConfig
from rlstudio.models.networks.encoder import flat_size
from rlstudio.models.spec import ModelSpec
from rlstudio.models.weights import load_weights

MAX_DATA = 16 << 20  # of JSON, which takes many times its size of memory when parsed
MAX_POLICY = 256 << 20
ACTIVATIONS = {"Tanh": "tanh", "ReLU": "relu", "SiLU": "silu", "GELU": "gelu", "ELU": "elu"}

Tensors = Mapping[str, np.ndarray]
Layer = tuple[np.ndarray, np.ndarray]


class _Facts(NamedTuple):
    """What the file states as text."""

    passes: bool  # learns from one rollout several times
    activation: str | None
    sde: bool  # state-dependent exploration
    gamma: float | None


class _Policy(NamedTuple):
    """What the tensors are, in our terms."""

    algo: str
    variant: str
    layers: list[Layer]
    usual_activation: str
    log_std: np.ndarray | None = None  # only for a Gaussian policy
    outputs: int = 0  # how many outputs of the last layer are actions or choices
    value_layers: tuple[Layer, ...] = ()  # of the value beside a policy, where it fits one of ours

    @property
    def hidden_sizes(self) -> tuple[int, ...]:
        return tuple(len(bias) for _, bias in self.layers[:-1])


def import_sb3(
    path: Path,
    target: Path,
    *,
    activation: str | None = None,
    env_id: str | None = None,
    formats: tuple[str, ...] | None = None,
    vec_normalize: Path | None = None,
) -> Bundle:
    """Read `path` and write the bundle `target`, after the same comparison of actions as in any export.
    `vec_normalize`: the statistics that `VecNormalize.save` wrote beside the model."""
    formats = default_formats() if formats is None else formats
    check_formats(formats)
    check_target(target)
    archive = Archive(read_archive(path), str(path))
    facts = _plain_facts(archive)
    policy = _recognised(read_torch_archive(archive.read("policy.pth", MAX_POLICY), f"{path}: policy.pth"), facts, path)
    statistics = None if vec_normalize is None else read_vec_normalize(vec_normalize)
    env = None if env_id is None else EnvConfig(id=env_id, num_envs=1)
    spaces = _spaces(policy, env, path)
    network = NetworkConfig(
        hidden_sizes=policy.hidden_sizes,
        activation=activation or facts.activation or policy.usual_activation,
        kind="mlp",
        normalize_observations=statistics is not None and statistics.observations is not None,
    )
    model = ModelSpec(variant=policy.variant, network=network)
    agent = blank_agent(spaces, model)
    weights = _weights(policy, agent.model.state_dict(), path)
    if statistics is not None and statistics.observations is not None:
        weights |= _normalizer(statistics, weights, vec_normalize)
    try:
        load_weights(agent.model, weights)
    except (ValueError, RuntimeError) as error:
        raise Incompatible(f"{path}: does not fit {env_id or 'its Model'}: {str(error).splitlines()[-1]}") from error
    returns = _returns(statistics)
    return export_agent(
        agent,
        target,
        model=model,
        formats=formats,
        name=re.sub(r"[^A-Za-z0-9_.-]", "-", path.stem)[:64] or "policy",
        algo=policy.algo,
        origin=BundleOrigin(kind="sb3"),
        env=env,
        config_yaml=None if env_id is None else _config(policy.algo, env_id, network, facts, returns),
        reward_scale=1.0 if returns is None else returns.scale,
        returns=returns,
    )


def _config(algo: str, env_id: str, network: NetworkConfig, facts: _Facts, returns: ReturnStatistics | None) -> str:
    """The experiment to train it on with: all but what the weights were learned by is as usual."""
    train: dict[str, object] = {} if facts.gamma is None else {"gamma": facts.gamma}
    if "normalize_rewards" in train_section(algo).model_fields:
        train["normalize_rewards"] = returns is not None  # its values are in units of rewards that were scaled, or not
    policy = {"algo": algo, "network": network.model_dump(mode="json")}
    return to_yaml(experiment_from({"env": {"id": env_id}, "policy": policy, "train": train}))


def _normalizer(
    statistics: VecNormalizeStatistics, weights: Mapping[str, np.ndarray], path: Path | None
) -> dict[str, np.ndarray]:
    """The running statistics as the buffers of our normalizer."""
    assert statistics.observations is not None
    of = statistics.observations
    prefix = next(name for name in weights if name.endswith("normalizer.count")).removesuffix("count")
    size = weights[f"{prefix}mean"].size
    if of.mean.size != size:
        raise Incompatible(
            f"{path}: obs_rms: has statistics of {of.mean.size} numbers, the policy takes {size}; give the file that"
            " was saved beside this model"
        )
    mean, variance = of.mean.ravel(), of.variance.ravel()
    given = {
        "count": np.asarray(of.count),
        "running_mean": mean,
        "running_square": variance * of.count,
        "mean": mean,
        "inverse_std": 1.0 / np.sqrt(variance + statistics.epsilon),
    }
    return {f"{prefix}{name}": values.astype(weights[f"{prefix}{name}"].dtype) for name, values in given.items()}


def _returns(statistics: VecNormalizeStatistics | None) -> ReturnStatistics | None:
    if statistics is None or statistics.returns is None:
        return None
    of = statistics.returns
    return ReturnStatistics(count=of.count, mean=float(of.mean.reshape(())), variance=float(of.variance.reshape(())))


def _plain_facts(archive: Archive) -> _Facts:
    """From `data`: which algorithm, and which activation where it is stated as text."""
    try:
        data = json.loads(archive.read("data", MAX_DATA))
    except (ValueError, RecursionError) as error:
        raise BadArchive(f"{archive.label}: data is not JSON") from error
    if not isinstance(data, dict):
        raise BadArchive(f"{archive.label}: data is not an object; is it a model of Stable-Baselines3?")
    given = data.get("policy_kwargs")
    stated = str(given.get("activation_fn", "")) if isinstance(given, dict) else ""
    match = re.fullmatch(r"<class 'torch\.nn\.modules\.activation\.(\w+)'>", stated)
    if stated and (match is None or match[1] not in ACTIVATIONS):
        raise Incompatible(f"{archive.label}: its activation {stated[:80]!a} is not one of {', '.join(ACTIVATIONS)}")
    activation = ACTIVATIONS[match[1]] if match else None
    gamma = data.get("gamma")
    known = gamma if isinstance(gamma, float) and 0 < gamma <= 1 else None
    return _Facts("n_epochs" in data, activation, data.get("use_sde") is True, known)


def _recognised(tensors: Tensors, facts: _Facts, path: Path) -> _Policy:
    if facts.sde:
        raise Incompatible(f"{path}: state-dependent exploration (use_sde) cannot be imported; train without it")
    if any(name.startswith(("features_extractor.", "actor.features_extractor.", "q_net.features_extractor."))
           for name in tensors):  # fmt: skip
        raise Incompatible(f"{path}: its policy has a features extractor (a CNN or a dict); only MLPs can be imported")
    if "action_net.weight" in tensors:
        layers = [*_sequence(tensors, "mlp_extractor.policy_net"), _layer(tensors, "action_net")]
        log_std = tensors.get("log_std")
        algo = "ppo" if facts.passes else "a2c"
        value = _value_layers(tensors, [bias.shape for _, bias in layers[:-1]])
        variant = "policy-value" if value else "policy-only"
        return _Policy(algo, variant, layers, "tanh", log_std, len(layers[-1][1]), value)
    if "q_net.q_net.0.weight" in tensors:
        layers = _sequence(tensors, "q_net.q_net")
        return _Policy("dqn", "q-value", layers, "relu", None, len(layers[-1][1]))
    if "actor.latent_pi.0.weight" in tensors and "actor.log_std.weight" in tensors:
        mean, log_std_layer = _layer(tensors, "actor.mu"), _layer(tensors, "actor.log_std")
        both = tuple(np.concatenate(pair) for pair in zip(mean, log_std_layer, strict=True))
        layers = [*_sequence(tensors, "actor.latent_pi"), (both[0], both[1])]
        return _Policy("sac", "squashed-policy", layers, "relu", None, len(mean[1]))
    if "actor.mu.0.weight" in tensors:
        layers = _sequence(tensors, "actor.mu")
        return _Policy("td3", "deterministic-policy", layers, "relu", None, len(layers[-1][1]))
    raise Incompatible(f"{path}: is not a PPO, A2C, DQN, SAC or TD3 model with an MLP policy")


def _value_layers(tensors: Tensors, hidden: list[tuple[int, ...]]) -> tuple[Layer, ...]:
    """The value beside a policy; none where its hidden layers have other sizes than the policy's, as ours cannot."""
    if "value_net.weight" not in tensors:
        return ()
    layers = [*_sequence(tensors, "mlp_extractor.value_net"), _layer(tensors, "value_net")]
    return tuple(layers) if [bias.shape for _, bias in layers[:-1]] == hidden else ()


def _sequence(tensors: Tensors, prefix: str) -> list[Layer]:
    """The linear layers of a torch Sequential; what lies between them has no tensors."""
    pattern = re.compile(rf"{re.escape(prefix)}\.(\d{{1,4}})\.weight")
    numbers = sorted(int(match[1]) for name in tensors if (match := pattern.fullmatch(name)))
    return [_layer(tensors, f"{prefix}.{number}") for number in numbers]


def _layer(tensors: Tensors, prefix: str) -> Layer:
    weight, bias = tensors.get(f"{prefix}.weight"), tensors.get(f"{prefix}.bias")
    if weight is None or bias is None or weight.ndim != 2 or bias.shape != weight.shape[:1]:
        raise Incompatible(f"policy.pth: {prefix} is not a linear layer with a bias")
    if weight.dtype != np.float32 or bias.dtype != np.float32:
        raise Incompatible(f"policy.pth: {prefix} has {weight.dtype} numbers; only float32 can be imported")
    return weight, bias


def _spaces(policy: _Policy, env: EnvConfig | None, path: Path) -> Spaces:
    inputs = policy.layers[0][0].shape[1]
    if env is None:
        if policy.log_std is not None or policy.algo in ("sac", "td3"):
            raise Incompatible(
                f"{path}: the bounds of its actions are not in the file; name its environment with --env"
            )
        return Spaces(Box((inputs,), "float32", (-np.inf,), (np.inf,)), Discrete(policy.outputs))
    made = make_vec_env(env)
    try:
        spaces = made.spaces
    finally:
        made.close()
    observation = spaces.observation
    if isinstance(observation, Dict) or (isinstance(observation, Box) and observation.dtype == "uint8"):
        raise Incompatible(f"{path}: an MLP policy on {describe(observation)} ({env.id}) cannot be imported")
    if flat_size(observation) != inputs:
        raise Incompatible(f"{path}: its policy takes {inputs} numbers, {env.id} shows {describe(observation)}")
    return spaces


def _weights(policy: _Policy, expected: Mapping[str, Tensor], path: Path) -> dict[str, np.ndarray]:
    """The imported weights under our names; a weight that acting does not need keeps its initial value."""
    net = "q_net" if policy.variant == "q-value" else "policy_net"
    weights = {name: tensor.numpy().copy() for name, tensor in expected.items()}
    given: dict[str, np.ndarray] = {}
    for prefix, layers in ((net, policy.layers), ("value_net", policy.value_layers)):
        for number, (weight, bias) in enumerate(layers):
            given |= {f"{prefix}.layers.{number}.weight": weight, f"{prefix}.layers.{number}.bias": bias}
    if policy.log_std is not None:
        given["head.log_std"] = policy.log_std.reshape(1, -1)
    if unknown := sorted(set(given) - set(weights)):
        raise Incompatible(f"{path}: {unknown[0]} has no place: its actions are not those of the environment")
    return weights | given
