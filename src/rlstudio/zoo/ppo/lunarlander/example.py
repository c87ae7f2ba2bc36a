"""Acts with this policy, which RLStudio builds from its weights."""

from pathlib import Path

import numpy as np

from rlstudio import open_bundle

bundle = open_bundle(Path(__file__).parent)
episode = bundle.policy().episode()
ports = bundle.spec.observation_ports
rows = {port.part: np.zeros((2, *port.shape), port.dtype) for port in ports}  # two environments
observations = rows[""] if "" in rows else rows
for _ in range(3):
    print(episode.act(observations).tolist())
