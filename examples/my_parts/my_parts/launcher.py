"""Polite: runs as processes of this machine that give way to others."""

from typing import Annotated

from pydantic import Field

from rlstudio.control.queue.launchers import LauncherConfig, SubprocessLauncher


class PoliteConfig(LauncherConfig):
    niceness: Annotated[int, Field(ge=0, le=19)] = 10
    """How much they give way."""


class Polite(SubprocessLauncher):
    Config = PoliteConfig

    def __init__(self, cfg, workspace):
        super().__init__(workspace)
        self.cfg = cfg

    def command(self, run):
        started = 'echo "niceness $(nice)"; exec "$@"'
        return ["nice", "-n", str(self.cfg.niceness), "sh", "-c", started, "sh", *super().command(run)]
