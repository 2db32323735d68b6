"""Only parts that may all be left out, one after another, are counted, however they are written."""

import pytest

from agent.constraint.errors import GrammarError
from agent.constraint.optional_runs import MOST_OPTIONAL_PARTS, refuse_long_optional_runs
from agent.constraint.tree import Choice, FreeText, Node, Position, Reference, Repeat, Sequence, Text

A = Text("a")
MAYBE = Repeat(A, 0, 1)
ANY_NUMBER = Repeat(A, 0, None)
MANY = MOST_OPTIONAL_PARTS + 1


def row(part: Node, count: int) -> Sequence:
    return Sequence((part,) * count)


def is_refused(*bodies: Node) -> bool:
    rules = {f"r{number}": body for number, body in enumerate(bodies)}
    try:
        refuse_long_optional_runs(rules)
    except GrammarError:
        return True
    return False


HALF = row(MAYBE, MOST_OPTIONAL_PARTS // 2 + 1)


@pytest.mark.parametrize(
    "body",
    [
        row(MAYBE, MANY),
        row(ANY_NUMBER, MANY),
        row(Choice((A, MAYBE)), MANY),
        row(FreeText(), MANY),
        row(Repeat(Sequence((A, A)), 0, 5), MANY),
        Sequence((HALF, HALF)),
        Sequence((A, HALF, HALF, A)),
        Sequence((Sequence((A, HALF)), Sequence((HALF, A)))),
        Sequence((Choice((A, HALF)), Choice((HALF, A)))),
        Sequence((HALF, Repeat(HALF, 0, 1))),
        Choice((A, Sequence((HALF, HALF)))),
    ],
)
def test_a_long_run_is_refused(body: Node) -> None:
    assert is_refused(body)


@pytest.mark.parametrize(
    "body",
    [
        row(A, MANY * 3),
        row(MAYBE, MOST_OPTIONAL_PARTS),
        row(Sequence((A, MAYBE)), MANY),
        row(Sequence((MAYBE, A)), MANY),
        Choice((MAYBE,) * MANY),
        Sequence((HALF, A, HALF)),
        Choice((HALF, HALF)),
        Repeat(HALF, 0, None),
        row(Repeat(A, 1, None), MANY),
    ],
)
def test_what_is_interrupted_passes(body: Node) -> None:
    assert not is_refused(body)


def test_runs_go_on_through_rules() -> None:
    assert is_refused(Sequence((Reference("r1"), Reference("r1"))), HALF)
    assert is_refused(row(Reference("r1"), MANY), MAYBE)
    assert not is_refused(Sequence((Reference("r1"), A, Reference("r1"))), HALF)


def test_a_circle_of_rules_ends_a_run() -> None:
    assert not is_refused(Sequence((Reference("r1"), MAYBE)), Sequence((Reference("r0"), MAYBE)))


def test_undefined_names_are_left_to_others() -> None:
    assert not is_refused(Sequence((row(MAYBE, MANY), Reference("nowhere"))))


def test_the_sentence_says_where() -> None:
    parts = tuple(Repeat(A, 0, 1, Position(1, 1 + place)) for place in range(MANY))
    with pytest.raises(GrammarError, match=f"line 1, column {MANY}: over {MOST_OPTIONAL_PARTS} parts in a row"):
        refuse_long_optional_runs({"root": Sequence(parts)})
