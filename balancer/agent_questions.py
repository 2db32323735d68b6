"""What can come of asking an agent something: the words that the switchboard raises and the routes turn to statuses."""


class AgentUnknown(Exception):
    """No agent with this id is linked."""


class AgentGone(Exception):
    """The agent's link ended before its answer came."""


class AgentDidNotAnswer(Exception):
    """The agent is linked and did not answer in time."""
