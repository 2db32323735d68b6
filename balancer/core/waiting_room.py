"""Where groups wait for a slot: in order of priority and arrival, each with a deadline, up to a bound.

Rules: a group has a deadline here exactly while nothing of it runs, and only then counts as buffered. A group that
was served before (its agent died, or its siblings ended) is outside the bound: it is never turned away, and it
turns nobody away. The room decides nothing: who is turned away, and when, is the machine's business.
"""

from balancer.core.groups import Group
from balancer.core.priority_set import PrioritySet


class WaitingRoom:
    """`update` after every change of a group; the rest are questions."""

    def __init__(self) -> None:
        self._queue: PrioritySet[Group] = PrioritySet()
        self._deadlines: PrioritySet[Group] = PrioritySet()
        self._counted: set[Group] = set()

    def update(self, group: Group) -> None:
        """Put the group where its fields say it belongs, or take it out."""
        if group.is_open and group.waiting and group.pinned_to is None:
            self._queue.put(group, group.order)
        else:
            self._queue.discard(group)
        if group.is_buffered:
            self._deadlines.put(group, group.deadline)
        else:
            self._deadlines.discard(group)
        if group.is_buffered and not group.outside_bound:
            self._counted.add(group)
        else:
            self._counted.discard(group)

    def first(self) -> Group | None:
        """The group that any free slot should go to."""
        return self._queue.first()

    def overdue(self, now: float) -> list[Group]:
        """Groups that have waited too long, the longest first. They stay until they are updated."""
        late = [group for group in self._deadlines if group.deadline <= now] if self._is_due(now) else []
        return sorted(late, key=lambda group: (group.deadline, group.arrival))

    def next_deadline(self) -> float | None:
        """When the next group will have waited too long."""
        deadline: float | None = self._deadlines.first_key()
        return deadline

    @property
    def buffered(self) -> int:
        """Groups of which nothing runs: `requests_buffered`."""
        return len(self._deadlines)

    @property
    def counted(self) -> int:
        """Buffered groups that the bound is about."""
        return len(self._counted)

    def __contains__(self, group: Group) -> bool:
        return group in self._queue

    def __repr__(self) -> str:
        return f"<WaitingRoom {self.buffered} buffered | {len(self._queue)} in line>"

    def has_deadline(self, group: Group) -> bool:
        """Whether the room will end this group's wait."""
        return group in self._deadlines

    def _is_due(self, now: float) -> bool:
        deadline = self.next_deadline()
        return deadline is not None and deadline <= now
