"""Plans of pytorch_mppi on Pendulum: one environment with MPPI, several with MPPI_Batched.

The dynamics and the cost are those of Gymnasium's Pendulum-v1, in the form that the library asks for: a function of
states [K, 2] and torques [K, 1] each, in float32, with the very operations of our own (`envs.analytic`).
"""

from __future__ import annotations

from math import pi

import torch
from measure import answer, job, rate
from pytorch_mppi import MPPI, MPPI_Batched


def dynamics(state: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
    theta, speed = state.unbind(-1)
    faster = torch.add(speed, torch.sin(theta), alpha=0.75).add_(action[..., 0], alpha=0.15).clamp(-8.0, 8.0)
    return torch.stack((torch.add(theta, faster, alpha=0.05), faster)).movedim(0, -1)


def running_cost(state: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
    theta, speed = state.unbind(-1)
    torque = action[..., 0]
    angle = torch.sub(theta, (theta * (0.5 / pi)).round(), alpha=2 * pi)
    return angle.square().addcmul_(speed, speed, value=0.1).addcmul_(torque, torque, value=0.001)


def main() -> None:
    told = job()
    torch.set_num_threads(told["threads"])
    torch.manual_seed(0)
    envs = told["envs"]
    settings = {
        "num_samples": told["candidates"],
        "horizon": told["horizon"],
        "lambda_": 0.1,
        "u_min": torch.tensor([-2.0]),
        "u_max": torch.tensor([2.0]),
    }
    sigma = torch.eye(1)  # a standard deviation of 1, half of the torque's range, as ours
    states = torch.tensor([[pi, 0.0]]).repeat(envs, 1)
    with torch.no_grad():
        if envs == 1:
            single = MPPI(dynamics, running_cost, 2, sigma, **settings)
            found = rate(lambda: single.command(states[0]), told["seconds"])
        else:
            batched = MPPI_Batched(dynamics, running_cost, 2, sigma, envs, **settings)
            found = rate(lambda: batched.command(states), told["seconds"])
    answer(**found)


if __name__ == "__main__":
    main()
