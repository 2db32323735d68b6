"""The table of links, and how long a lost one waits."""

import itertools

from agent.dialler import LONGEST_RETRY_SECONDS, SHORTEST_RETRY_SECONDS, Backoff
from agent.links import Links
from shared.messages_from_agent import Busy, MessageFromAgent

MESSAGE = Busy(member=1, attempt=0)


class FakeLink:
    def __init__(self, balancer_id: str) -> None:
        self.balancer_id = balancer_id
        self.sent: list[MessageFromAgent] = []

    def send(self, message: MessageFromAgent) -> None:
        self.sent.append(message)


def test_a_message_goes_to_its_link_and_to_no_other() -> None:
    links, one, other = Links(), FakeLink("a"), FakeLink("b")
    first = links.join(one)
    links.join(other)
    links.send(first, MESSAGE)
    assert (one.sent, other.sent) == ([MESSAGE], [])


def test_a_link_that_is_down_takes_messages_and_does_nothing() -> None:
    links, link = Links(), FakeLink("a")
    number = links.join(link)
    links.leave(number)
    links.send(number, MESSAGE)
    assert link.sent == []
    assert not links.is_up(number)
    assert not links.is_linked_to("a")


def test_numbers_are_never_used_twice() -> None:
    links = Links()
    seen = set()
    for _ in range(5):
        number = links.join(FakeLink("a"))
        assert number not in seen
        seen.add(number)
        links.leave(number)


def test_a_version_problem_is_news_once() -> None:
    links = Links()
    assert links.note_version_problem("a:1", "old")
    assert not links.note_version_problem("a:1", "old")
    assert links.note_version_problem("a:1", None)
    assert not links.note_version_problem("a:1", None)


def test_waits_grow_to_the_longest_and_start_again_after_a_link() -> None:
    backoff = Backoff(lambda: 0.0)
    waits = [backoff.next() for _ in range(8)]
    assert waits[0] == SHORTEST_RETRY_SECONDS
    assert waits == sorted(waits)
    assert waits[-1] == LONGEST_RETRY_SECONDS
    backoff.reset()
    assert backoff.next() == SHORTEST_RETRY_SECONDS


def test_waits_are_shortened_by_chance_by_at_most_half() -> None:
    fractions = itertools.cycle([0.0, 0.5, 0.999])
    backoff = Backoff(lambda: next(fractions))
    waits = [backoff.next() for _ in range(30)]
    assert all(0.1 <= wait <= LONGEST_RETRY_SECONDS for wait in waits)
    assert len(set(waits[-3:])) == 3
