"""Whether an operation that runs still leads where the fleet wants to go."""

from agent.core.swap_events import Operation
from shared.desired_state import AgentDesiredState
from shared.state_distance import same_load


def is_in_vain(running: Operation, wanted: AgentDesiredState) -> bool:
    """Whether what runs is of no use on the way to `wanted`. A model that is being restored is: it serves meanwhile."""
    if running.kind == "proving":
        return running.target.state != wanted
    return not running.restoring and not same_load(running.target.state, wanted)
