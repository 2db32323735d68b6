"""What was used least recently goes first, and neither entries nor weight pass their bounds."""

from collections import OrderedDict

from hypothesis import given
from hypothesis import strategies as st

from agent.constraint.cache import LeastRecentlyUsed

puts = st.tuples(st.just("put"), st.integers(0, 5), st.integers(0, 12))
gets = st.tuples(st.just("get"), st.integers(0, 5), st.just(0))


def test_the_least_recently_used_goes_first() -> None:
    cache: LeastRecentlyUsed[str] = LeastRecentlyUsed(entries=2, weight=100)
    cache.put("a", "A", 1)
    cache.put("b", "B", 1)
    assert cache.get("a") == "A"
    cache.put("c", "C", 1)
    assert (cache.get("a"), cache.get("b"), cache.get("c")) == ("A", None, "C")


def test_a_heavy_entry_drops_as_many_as_it_needs() -> None:
    cache: LeastRecentlyUsed[str] = LeastRecentlyUsed(entries=10, weight=10)
    for name in "abc":
        cache.put(name, name.upper(), 3)
    cache.put("d", "D", 6)
    assert [cache.get(name) for name in "abcd"] == [None, None, "C", "D"]
    assert cache.weight == 9


def test_what_is_heavier_than_everything_is_not_kept_and_drops_nobody() -> None:
    cache: LeastRecentlyUsed[str] = LeastRecentlyUsed(entries=10, weight=10)
    cache.put("a", "A", 3)
    cache.put("b", "B", 11)
    assert (cache.get("a"), cache.get("b")) == ("A", None)


def test_nothing_is_left_when_it_is_cleared() -> None:
    cache: LeastRecentlyUsed[str] = LeastRecentlyUsed(entries=10, weight=10)
    cache.put("a", "A", 3)
    cache.clear()
    assert (cache.get("a"), len(cache), cache.weight) == (None, 0, 0)


@given(steps=st.lists(st.one_of(puts, gets), max_size=40))
def test_it_answers_as_a_list_in_order_of_use_would(steps: list[tuple[str, int, int]]) -> None:
    cache: LeastRecentlyUsed[int] = LeastRecentlyUsed(entries=3, weight=20)
    model: OrderedDict[int, int] = OrderedDict()
    for kind, key, weight in steps:
        if kind == "get":
            assert cache.get(key) == (key if key in model else None)
            if key in model:
                model.move_to_end(key)
            continue
        cache.put(key, key, weight)
        model.pop(key, None)
        model[key] = weight
        while len(model) > 3 or sum(model.values()) > 20:
            model.popitem(last=False)
    assert len(cache) == len(model)
    assert cache.weight == sum(model.values())
