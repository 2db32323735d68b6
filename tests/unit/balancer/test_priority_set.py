from hypothesis import given, strategies

from balancer.core.priority_set import PrioritySet


def test_the_smallest_key_is_first_and_equal_keys_keep_their_order() -> None:
    line: PrioritySet[str] = PrioritySet()
    for name, key in (("late", 2), ("early", 1), ("early too", 1)):
        line.put(name, key)
    assert (line.first(), line.first_key(), len(line)) == ("early", 1, 3)
    line.discard("early")
    assert line.first() == "early too"


def test_putting_again_moves_a_member() -> None:
    line: PrioritySet[str] = PrioritySet()
    line.put("a", 1)
    line.put("b", 2)
    line.put("a", 3)
    assert (line.first(), line.key_of("a"), len(line)) == ("b", 3, 2)


def test_an_empty_set_has_no_first() -> None:
    line: PrioritySet[str] = PrioritySet()
    line.discard("nobody")
    assert (line.first(), line.first_key(), line.key_of("nobody"), "nobody" in line) == (None, None, None, False)


def test_what_was_discarded_does_not_pile_up() -> None:
    line: PrioritySet[int] = PrioritySet()
    line.put(-1, -1)  # stays first, so that nothing is popped by looking
    for number in range(10_000):
        line.put(number, number)
        line.discard(number)
    assert len(line._heap) < 100


@given(strategies.lists(strategies.tuples(strategies.integers(0, 8), strategies.none() | strategies.integers(0, 5))))
def test_it_agrees_with_a_sorted_list(steps: list[tuple[int, int | None]]) -> None:
    line: PrioritySet[int] = PrioritySet()
    model: dict[int, int] = {}
    for member, key in steps:
        if key is None:
            line.discard(member)
            model.pop(member, None)
        else:
            line.put(member, key)
            model[member] = key
        assert line.first_key() == min(model.values(), default=None)
        assert set(line) == set(model)
