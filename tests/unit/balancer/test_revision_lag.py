"""Since when agents are behind."""

from balancer.core.events import AgentFacts
from balancer.core.revision_lag import RevisionLag
from shared.identifiers import AgentId

A, B = AgentId("a"), AgentId("b")


def facts(revision: int | None, **changes: bool) -> AgentFacts:
    return AgentFacts(4, applied_revision=revision, **changes)


def since(lag: RevisionLag) -> float | None:
    return lag.since


def test_nobody_is_behind_what_is_not_known() -> None:
    lag = RevisionLag()
    lag.changed(A, facts(None), 10.0)
    assert since(lag) is None


def test_it_begins_with_the_change_and_ends_with_the_last_agent() -> None:
    lag = RevisionLag()
    lag.wanted(2, [(A, facts(1)), (B, facts(1))], 10.0)
    assert since(lag) == 10.0
    lag.changed(A, facts(2), 11.0)
    assert since(lag) == 10.0
    lag.changed(B, facts(None), 12.0)  # on its way
    assert since(lag) == 10.0
    lag.changed(B, facts(2), 13.0)
    assert since(lag) is None


def test_an_agent_that_joins_later_is_behind_from_then_on() -> None:
    lag = RevisionLag()
    lag.wanted(2, [(A, facts(2))], 10.0)
    assert since(lag) is None
    lag.changed(B, facts(None), 20.0)
    assert since(lag) == 20.0
    lag.gone(B)
    assert since(lag) is None


def test_each_change_begins_anew() -> None:
    lag = RevisionLag()
    lag.wanted(2, [(A, facts(1))], 10.0)
    lag.wanted(3, [(A, facts(1))], 15.0)
    assert since(lag) == 15.0


def test_who_leaves_or_is_ahead_is_not_behind() -> None:
    lag = RevisionLag()
    lag.wanted(2, [(A, facts(3)), (B, facts(1, draining=True))], 10.0)
    assert since(lag) is None
