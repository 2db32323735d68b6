"""Which agent gets the next member: one pure function, and the order that it is built on.

Policy: the agent that uses the smallest share of its slots; among equals the one that was given work least
recently; then by id, so that equal histories give equal choices. (Paddler compares absolute counts, which fills a
1-slot agent before a 16-slot one.) Where a prompt's prefix already lies will be weighed here, and nowhere else.
"""

from collections.abc import Iterable
from typing import Protocol, TypeVar

Preference = tuple[float, int, str]


class Candidate(Protocol):
    """An agent with a free slot."""

    @property
    def preference(self) -> Preference: ...


C = TypeVar("C", bound=Candidate)


def preference(slots_taken: int, slots_total: int, last_dispatch: int, agent_id: str) -> Preference:
    """The sort key of an agent with at least one slot; smaller is better."""
    return (slots_taken / slots_total, last_dispatch, agent_id)


def choose_agent(candidates: Iterable[C], prefix_hashes: tuple[int, ...] = ()) -> C | None:
    """The best of a few agents that have a free slot; None when there are none.

    The caller offers the least busy agent (and later those that hold a prefix of the prompt), not the whole
    fleet: the choice must cost the same with ten agents and with a thousand.
    """
    return min(candidates, key=lambda one: one.preference, default=None)
