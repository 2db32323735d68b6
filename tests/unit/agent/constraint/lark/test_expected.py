"""What may follow, and what may be expected together."""

from agent.constraint.lark.expected import expected_together, neighbours
from agent.constraint.lark.pieces import Pieces
from agent.constraint.tree import Choice, Node, Reference, Repeat, Sequence, Text


def pieces(root: Node, terminals: int) -> Pieces:
    """Rule 0 is the root; the terminals are 1, 2, and so on."""
    return Pieces(
        root="0",
        rules={"0": root},
        terminals={str(number): Text("ab") for number in range(1, terminals + 1)},
    )


def leaf(number: int) -> Reference:
    return Reference(str(number))


def bit(*numbers: int) -> int:
    return sum(1 << number for number in numbers)


def test_what_may_follow_reaches_over_what_may_be_empty() -> None:
    found = neighbours(pieces(Sequence((leaf(1), Repeat(leaf(2), 0, 1), Repeat(leaf(3), 0, None), leaf(4))), 4))
    assert found.start == bit(1)
    assert found.after == {1: bit(2, 3, 4), 2: bit(3, 4), 3: bit(3, 4), 4: 0}


def test_recursion_is_followed_to_its_end() -> None:
    found = neighbours(pieces(Choice((Sequence((leaf(1), leaf(0), leaf(2))), leaf(3))), 3))
    assert found.start == bit(1, 3)
    assert found.after == {1: bit(1, 3), 2: bit(2), 3: bit(2)}


def test_followers_of_what_matches_the_same_text_are_expected_together() -> None:
    found = neighbours(pieces(Choice((Sequence((leaf(1), leaf(3))), Sequence((leaf(2), leaf(4))))), 4))
    apart = expected_together(found, {1: bit(1), 2: bit(2), 3: bit(3), 4: bit(4)})
    assert apart == {1: bit(1, 2), 2: bit(1, 2), 3: bit(3), 4: bit(4)}
    alike = expected_together(found, {1: bit(1, 2), 2: bit(1, 2), 3: bit(3), 4: bit(4)})
    assert alike == {1: bit(1, 2), 2: bit(1, 2), 3: bit(3, 4), 4: bit(3, 4)}


def test_that_goes_on_from_pair_to_pair() -> None:
    chains = (Sequence((leaf(1), leaf(3), leaf(5))), Sequence((leaf(2), leaf(4), leaf(6))))
    alike = {1: bit(1, 2), 2: bit(1, 2), 3: bit(3, 4), 4: bit(3, 4), 5: bit(5), 6: bit(6)}
    assert expected_together(neighbours(pieces(Choice(chains), 6)), alike)[5] == bit(5, 6)
