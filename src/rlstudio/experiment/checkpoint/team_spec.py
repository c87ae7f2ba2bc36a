"""What a checkpoint's manifest says of the agents of several teams, in place of `agent`:

    "teams": {"observation": SPACE, "action": SPACE, "names": ["speaker", "listener"],
              "teams": {"TEAM": {... as `agent`, "agents": [0]}}}

The spaces are those in whose columns every agent has its place; `agents` are numbers of `names`.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from rlstudio.agents.teams import TeamsAgent
from rlstudio.core.contracts import Trainer, TrainsTeams
from rlstudio.core.spaces import Spaces, from_json, to_json
from rlstudio.experiment.checkpoint.agent_spec import FIELD, AgentSpec, describe_agent, read_field
from rlstudio.experiment.checkpoint.manifest import CheckpointInfo

TEAMS = "teams"


class TeamSpec(AgentSpec):
    agents: tuple[int, ...]


class TeamsSpec(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    observation: dict[str, object]
    action: dict[str, object]
    names: tuple[str, ...]
    teams: dict[str, TeamSpec]

    @property
    def spaces(self) -> Spaces:
        return Spaces(from_json(self.observation), from_json(self.action))


def agent_fields(trainer: Trainer, spaces: Spaces) -> dict[str, object]:
    """The field of the manifest that says how the run acts: `agent`, or `teams`."""
    if not isinstance(trainer, TrainsTeams):
        return {FIELD: describe_agent(trainer, spaces)}
    agent = trainer.agent
    assert isinstance(agent, TeamsAgent)
    teams = {
        name: {**describe_agent(own, agent.columns[name].spaces), "agents": list(agent.columns[name].numbers)}
        for name, own in trainer.trainers.items()
    }
    observation, action = to_json(spaces.observation), to_json(spaces.action)
    return {TEAMS: {"observation": observation, "action": action, "names": list(agent.names), "teams": teams}}


def read_teams(info: CheckpointInfo) -> TeamsSpec | None:
    """What the manifest says; None of a run without teams, CheckpointError where the field is not valid."""
    return read_field(
        info, TEAMS, TeamsSpec, lambda spec: [spec.spaces, *(team.spaces for team in spec.teams.values())]
    )
