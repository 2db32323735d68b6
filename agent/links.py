"""The balancers that this agent is linked to, by link number; numbers are never used twice in one process."""

import itertools
from typing import Protocol

from shared.messages_from_agent import MessageFromAgent, StatusUpdate


class Link(Protocol):
    """One live websocket to a balancer."""

    @property
    def balancer_id(self) -> str: ...

    def send(self, message: MessageFromAgent) -> None:
        """Queue a message; never blocks. A link that cannot take it breaks, which its own task then reports."""


class Links:
    """The outlet of everything that has something to say to a balancer."""

    def __init__(self) -> None:
        self._links: dict[int, Link] = {}
        self._numbers = itertools.count(1)
        self._version_problems: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"<Links {len(self._links)} balancers>"

    def __len__(self) -> int:
        return len(self._links)

    def join(self, link: Link) -> int:
        """A link is up; returns its number."""
        number = next(self._numbers)
        self._links[number] = link
        return number

    def leave(self, number: int) -> None:
        """The link is down; whatever is sent to it from now on goes nowhere."""
        self._links.pop(number, None)

    def is_up(self, number: int) -> bool:
        """Whether this very link is still there."""
        return number in self._links

    def is_linked_to(self, balancer_id: str) -> bool:
        """Whether some link leads to this balancer."""
        return any(link.balancer_id == balancer_id for link in self._links.values())

    def send(self, number: int, message: MessageFromAgent) -> None:
        """Queue a message for one link; one that is down takes it and does nothing."""
        link = self._links.get(number)
        if link is not None:
            link.send(message)

    def send_status(self, update: StatusUpdate) -> None:
        """Queue the same snapshot for all links."""
        for link in self._links.values():
            link.send(update)

    # Balancers of another protocol version

    def note_version_problem(self, address: str, problem: str | None) -> bool:
        """What is wrong with the version of the balancer at `address`; None: nothing. Returns whether that is news."""
        known = self._version_problems.get(address)
        if problem is None:
            self._version_problems.pop(address, None)
        else:
            self._version_problems[address] = problem
        return known != problem

    @property
    def version_problem(self) -> str | None:
        """One sentence for each balancer that speaks another version; None when all speak ours."""
        return "; ".join(self._version_problems.values()) or None
