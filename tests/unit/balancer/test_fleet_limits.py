"""What a fleet could take, by what its agents say."""

from balancer.fleet_limits import FleetLimits, fleet_limits
from balancer.linked_agents import AgentSnapshot, FleetSnapshot
from shared.identifiers import AgentId
from tests.support.agent_statuses import agent_status


def agent(slots: int, revision: int | None, request_tokens: int, vocabulary_size: int) -> AgentSnapshot:
    status = agent_status(slots).model_copy(
        update={
            "applied_revision": revision,
            "request_limit_tokens": request_tokens,
            "vocabulary_size": vocabulary_size,
        }
    )
    return AgentSnapshot(AgentId("a"), None, status, 0, "127.0.0.1", 0.0, "1")


def test_the_largest_of_those_that_serve_the_wanted_state() -> None:
    fleet = FleetSnapshot((agent(1, 7, 100, 50), agent(1, 7, 200, 50), agent(1, 6, 900, 900)), 7, None)
    assert fleet_limits(fleet) == FleetLimits(200, 50)


def test_nobody_has_said() -> None:
    for agents in ((), (agent(0, 7, 100, 50),), (agent(1, 6, 100, 50),), (agent(1, 7, 0, 0),)):
        assert fleet_limits(FleetSnapshot(agents, 7, None)) == FleetLimits()
