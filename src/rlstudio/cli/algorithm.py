"""`python -m rlstudio.algos.ppo env.id=CartPole-v1`: `rlctl launch` for one algorithm."""

from __future__ import annotations

import sys
from typing import NoReturn

from rlstudio.cli.app import main as run_command


def main(algo_name: str) -> NoReturn:
    """Launch with the preset of this algorithm for the given environment, or with its defaults; it says which."""
    sys.exit(run_command(["launch", "--algo", algo_name, *sys.argv[1:]], is_program=True))
