"""The open members, and what there is to tell about them since the last report."""

from agent.core.commands import MemberKey
from agent.core.events import EngineEvent, MemberEnded
from agent.core.sequence import MemberSequence
from shared.failures import Failure
from shared.generation import FinishReason, Usage

Ending = FinishReason | Failure


class MemberTable:
    """A key is in `members` from `add` to `close`; `close` is the one place where a key ends."""

    def __init__(self) -> None:
        self.members: dict[MemberKey, MemberSequence] = {}
        self._events: list[EngineEvent] = []
        self._added = 0
        self._closed = 0

    def add(self, sequence: MemberSequence) -> None:
        """Open a member. Raises ValueError for a key that is open already (a bug)."""
        if sequence.key in self.members:
            raise ValueError(f"{sequence.key} is open already")
        self.members[sequence.key] = sequence
        self._added += 1

    def close(self, key: MemberKey, ending: Ending, usage: Usage, matched_stop: str | int | None = None) -> None:
        """End a member. Raises KeyError when it is not open (a bug)."""
        del self.members[key]
        self._closed += 1
        self.refuse(key, ending, usage, matched_stop)

    def refuse(self, key: MemberKey, ending: Ending, usage: Usage, matched_stop: str | int | None = None) -> None:
        """Tell the end of a request; it never became a member, or was one."""
        if isinstance(ending, Failure):
            self._events.append(MemberEnded(key, None, usage, ending))
        else:
            self._events.append(MemberEnded(key, ending, usage, matched_stop=matched_stop))

    def report(self, event: EngineEvent) -> None:
        """Tell something about a member."""
        self._events.append(event)

    def take_events(self) -> tuple[EngineEvent, ...]:
        """What was reported since the last call, in order."""
        events, self._events = tuple(self._events), []
        return events

    def check_invariants(self) -> None:
        """Raises AssertionError when a member was lost or ended twice."""
        assert self._added == self._closed + len(self.members), "a member ended twice or never"
