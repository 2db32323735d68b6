"""What happened lately: the last few hundred events that mattered, with what was decided, told per request.

Bounded, and holds no text of any prompt or answer. Lines are rendered when somebody asks, not when they are kept.
"""

from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from balancer.core.actions import Action, ForgetMember
from balancer.core.events import Event
from shared.identifiers import GroupId

DEFAULT_LINES = 600


@dataclass(frozen=True, slots=True)
class StoryLine:
    """One event, what followed, and the groups that both are about."""

    time: float
    event: Event
    actions: tuple[Action, ...]
    groups: frozenset[GroupId]


class Story:
    """A ring of lines, found by request id. Of two requests with one id, the later one's story is told."""

    def __init__(self, max_lines: int = DEFAULT_LINES) -> None:
        self._lines: deque[StoryLine] = deque(maxlen=max_lines)
        self._group_of: OrderedDict[str, GroupId] = OrderedDict()
        self._max_requests = max_lines

    def begin(self, request_id: str, group: GroupId) -> None:
        """From now on the request can be asked for."""
        self._group_of[request_id] = group
        self._group_of.move_to_end(request_id)
        if len(self._group_of) > self._max_requests:
            self._group_of.popitem(last=False)

    def record(self, now: float, event: Event, actions: Sequence[Action], subject: GroupId | None) -> None:
        """Keep an event that is about a request or led to something."""
        groups = {group for action in actions if (group := _group_of(action)) is not None}
        if subject is not None:
            groups.add(subject)
        if groups or actions:
            self._lines.append(StoryLine(now, event, tuple(actions), frozenset(groups)))

    def of_request(self, request_id: str) -> tuple[str, ...] | None:
        """The request's lines that are still kept, oldest first; None when it is unknown or forgotten.

        Times are in seconds since the first of them.
        """
        group = self._group_of.get(request_id)
        if group is None:
            return None
        lines = [line for line in self._lines if group in line.groups]
        return tuple(_render(line, group, lines[0].time) for line in lines) or None

    def recent(self, count: int = 20) -> tuple[str, ...]:
        """The last lines about anything."""
        lines = list(self._lines)[-count:]
        return tuple(_render(line, None, lines[0].time) for line in lines)

    def __len__(self) -> int:
        return len(self._lines)


def _group_of(action: Action) -> GroupId | None:
    group: GroupId | None = getattr(action, "group", None)
    return group


def _render(line: StoryLine, group: GroupId | None, start: float) -> str:
    told = [
        one
        for one in line.actions
        if not isinstance(one, ForgetMember) and (group is None or _group_of(one) in (group, None))
    ]
    consequence = ", ".join(_words(one) for one in told)
    return f"+{line.time - start:.3f}s {_words(line.event)}" + (f" -> {consequence}" if consequence else "")


def _words(fact: Any) -> str:
    """`Dispatch(member=3, agent=a, attempt=1)`, without the group, which the reader asked for."""
    shown = [f"{field.name}={_value(getattr(fact, field.name))}" for field in fields(fact) if field.name != "group"]
    return f"{type(fact).__name__}({', '.join(shown)})"


def _value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3f}"
    if hasattr(value, "kind") and hasattr(value, "message"):
        return f"{value.kind}: {value.message}"
    return str(value)
