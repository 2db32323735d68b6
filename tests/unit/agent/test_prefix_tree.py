"""The tree mirrors physical cells: checked against a model that keeps every cell by itself."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.core.prefix_tree import PrefixTree, common_length


def tree_of(**paths: list[int]) -> PrefixTree:
    """Sequences s0, s1, ... that each evaluated their own tokens."""
    tree = PrefixTree()
    for name, tokens in paths.items():
        tree.extend(int(name[1:]), tokens)
    return tree


def test_cells_that_two_sequences_share_count_once() -> None:
    tree = tree_of(s0=[1, 2, 3, 4])
    tree.share(0, 1, 3)
    assert tree.cells == 4
    tree.extend(1, [9, 9])
    assert tree.cells == 6
    assert tree.tokens_of(0) == [1, 2, 3, 4]
    assert tree.tokens_of(1) == [1, 2, 3, 9, 9]


def test_equal_tokens_evaluated_twice_are_cells_of_their_own() -> None:
    tree = tree_of(s0=[1, 2], s1=[1, 2])
    assert tree.cells == 4
    tree.check_invariants()


def test_cutting_frees_only_what_nobody_else_holds() -> None:
    tree = tree_of(s0=[1, 2, 3, 4])
    tree.share(0, 1, 3)
    assert tree.cut(0, 1) == 1
    assert tree.cells == 3
    assert tree.cut(1, 0) == 2
    assert tree.tokens_of(0) == [1]
    tree.check_invariants()


def test_the_longest_match_looks_into_twins() -> None:
    tree = tree_of(s0=[1, 2, 7], s1=[1, 2, 3, 4])
    match = tree.longest_match([1, 2, 3, 4, 5], 5)
    assert (match.tokens, match.sequence_id) == (4, 1)
    assert tree.longest_match([1, 2, 3, 4, 5], 3).tokens == 3
    assert tree.longest_match([8], 1).sequence_id is None


def test_a_match_may_end_inside_a_run() -> None:
    tree = tree_of(s0=[1, 2, 3, 4])
    assert tree.longest_match([1, 2, 9], 3).tokens == 2


def test_a_match_can_leave_out_what_one_sequence_holds_alone() -> None:
    tree = tree_of(s0=[1, 2, 3, 4])
    tree.share(0, 1, 2)
    match = tree.longest_match([1, 2, 3, 4], 4, unless_held_only_by=0)
    assert (match.tokens, match.sequence_id) == (2, 1)


def test_sharing_more_than_there_is_is_a_bug() -> None:
    tree = tree_of(s0=[1, 2], s1=[3])
    with pytest.raises(ValueError):
        tree.share(0, 2, 3)
    with pytest.raises(ValueError):
        tree.share(0, 1, 1)  # it holds something already


@given(st.lists(st.integers(0, 2), max_size=12), st.lists(st.integers(0, 2), max_size=14), st.integers(0, 3))
def test_common_length_counts_equal_tokens(run: list[int], tokens: list[int], at: int) -> None:
    at = min(at, len(tokens))
    expected = 0
    while expected < min(len(run), len(tokens) - at) and run[expected] == tokens[at + expected]:
        expected += 1
    assert common_length(run, tokens, at, len(tokens)) == expected


operations = st.lists(
    st.tuples(
        st.sampled_from(["extend", "share", "cut"]),
        st.integers(0, 4),
        st.integers(0, 4),
        st.integers(0, 6),
        st.lists(st.integers(0, 1), min_size=1, max_size=3),
    ),
    max_size=25,
)


@settings(deadline=None)
@given(operations)
def test_it_agrees_with_a_model_that_keeps_each_cell(steps: list[tuple]) -> None:
    tree = PrefixTree()
    cells: dict[int, list[tuple[object, int]]] = {sequence: [] for sequence in range(5)}  # (identity, token)
    for kind, one, other, number, tokens in steps:
        if kind == "extend":
            tree.extend(one, tokens)
            cells[one] = cells[one] + [(object(), token) for token in tokens]
        elif kind == "share" and not cells[other] and 0 < number <= len(cells[one]):
            tree.share(one, other, number)
            cells[other] = cells[one][:number]
        elif kind == "cut":
            before = tree.cells
            freed = tree.cut(one, number)
            cells[one] = cells[one][:number]
            assert before - tree.cells == freed
        tree.check_invariants()
        assert tree.cells == len({cell for held in cells.values() for cell in held})
        for sequence, held in cells.items():
            assert tree.tokens_of(sequence) == [token for _, token in held]
        longest = max(range(5), key=lambda sequence: len(cells[sequence]))
        wanted = [token for _, token in cells[longest]] + [1]
        assert tree.longest_match(wanted, len(wanted) - 1).tokens == len(wanted) - 1
