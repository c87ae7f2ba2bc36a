"""Refuse a run whose place cannot work, before there is a run: what can be said without asking a cluster."""

from __future__ import annotations

import os
import shutil
from typing import NoReturn

from rlstudio.control.workspace import Workspace
from rlstudio.core.errors import UserError
from rlstudio.core.host.extras import Extra
from rlstudio.core.resources import ResourcesConfig
from rlstudio.scale.ray_start import RAY_ADDRESS, is_loopback

RAY = Extra("ray", "ray")


def check_place(workspace: Workspace, resources: ResourcesConfig) -> None:
    """Whether `resources.backend` can be used from here, with this store."""
    if resources.backend == "local":
        return
    if resources.backend == "slurm":
        _check_slurm(workspace)
        return
    if not RAY.installed:
        raise UserError(f"resources.backend: ray needs the package ray; {RAY.remedy}")
    address = os.environ.get(RAY_ADDRESS, "auto") if resources.address == "auto" else resources.address
    if workspace.store_file is not None and address != "auto" and not is_loopback(address):
        refuse_file(str(workspace.store_file), f"the Ray cluster at {address} is not on this machine alone")


def _check_slurm(workspace: Workspace) -> None:
    if shutil.which("sbatch") is None:
        raise UserError(
            "resources.backend: slurm needs sbatch, which is not on the PATH; launch on a machine of the cluster"
        )
    if workspace.store_file is not None:
        refuse_file(str(workspace.store_file), "Slurm starts runs on other machines")


def refuse_file(file: str, reason: str) -> NoReturn:
    """A store in a file, where several machines would need it."""
    raise UserError(
        f"{file}: resources.backend: {reason}, and a SQLite file is safe on one machine only; set"
        " RLSTUDIO_DB=postgresql://user@host/name, or use a cluster of one node"
    )
