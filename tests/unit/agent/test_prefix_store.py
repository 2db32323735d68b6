"""What is found of what was stored, what gives way, and that nothing is stored twice."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.backend import SavedCells
from agent.core.prefix_store import LEAST_PIECE_TOKENS, PIECE_TOKENS, PrefixStore
from tests.support.small_pieces import use_small_pieces

BYTES_A_TOKEN = 10


def save(store: PrefixStore, tokens: list[int], adapter: str | None = None) -> int:
    """Store all of it that counts; how many tokens were copied for that."""
    copied = 0
    while (missing := store.missing(tokens, adapter)) is not None:
        length = missing.stop - missing.start
        saved = SavedCells(missing.start, missing.stop, length * BYTES_A_TOKEN, tokens[missing.start : missing.stop])
        if not store.put(missing, tokens, saved):
            break
        copied += length
        store.check_invariants()
    return copied


def found(store: PrefixStore, tokens: list[int], adapter: str | None = None) -> int:
    prefix = store.find(tokens, len(tokens), adapter)
    whole = [token for piece in prefix.pieces for token in piece.tokens]
    assert whole[: prefix.tokens] == tokens[: prefix.tokens]
    assert all(piece.saved and piece.saved.content == piece.tokens for piece in prefix.pieces)
    return prefix.tokens


def test_a_prefix_is_found_as_far_as_it_agrees() -> None:
    store = PrefixStore(10**6)
    tokens = list(range(300))
    assert save(store, tokens) == 300
    assert found(store, tokens) == 300
    assert found(store, [*tokens[:200], 7, 8, 9]) == 200
    assert found(store, [5, *tokens]) == 0
    assert store.find(tokens, 130).tokens == 128
    assert len(store.find(tokens, 130).pieces) == 1


def test_a_conversation_that_went_on_copies_only_what_is_new() -> None:
    store = PrefixStore(10**6)
    save(store, list(range(200)))
    assert save(store, list(range(260))) == 60
    assert save(store, list(range(260))) == 0
    assert store.tokens == 260
    assert store.bytes == 2600


def test_a_beginning_that_prompts_share_is_copied_at_most_twice() -> None:
    store = PrefixStore(10**6)
    shared = list(range(100))
    copied = [save(store, [*shared, *range(start, start + 50)]) for start in range(1000, 1500, 100)]
    assert copied == [150, 150, 50, 50, 50]
    assert all(found(store, [*shared, *range(start, start + 50)]) == 150 for start in range(1000, 1500, 100))


def test_a_tail_that_is_quickly_evaluated_is_not_copied() -> None:
    store = PrefixStore(10**6)
    tokens = list(range(PIECE_TOKENS))
    assert save(store, tokens[: LEAST_PIECE_TOKENS - 1]) == 0
    assert save(store, tokens) == PIECE_TOKENS
    assert save(store, [*tokens, *range(LEAST_PIECE_TOKENS - 1)]) == 0


@pytest.mark.parametrize("more", range(1, LEAST_PIECE_TOKENS + 1))
def test_a_short_tail_is_made_longer_at_the_cost_of_the_piece_before(more: int) -> None:
    store = PrefixStore(10**6)
    tokens = list(range(PIECE_TOKENS + more))
    assert save(store, tokens) == len(tokens)
    assert found(store, tokens) == len(tokens)


def test_an_adapter_finds_only_its_own() -> None:
    store = PrefixStore(10**6)
    tokens = list(range(100))
    save(store, tokens, "legal")
    assert found(store, tokens) == 0
    assert found(store, tokens, "medical") == 0
    assert found(store, tokens, "legal") == 100


def test_the_least_recently_used_gives_way_and_ends_before_its_beginning() -> None:
    store = PrefixStore(3000)
    first, second = list(range(150)), list(range(1000, 1140))
    save(store, first)
    save(store, second)
    store.use(store.find(first, 150).pieces[-1])
    save(store, list(range(2000, 2040)))
    assert found(store, first) == 150
    assert found(store, second) == 140 - LEAST_PIECE_TOKENS  # its tail went
    assert store.bytes <= 3000


def test_a_prefix_that_is_larger_than_the_store_is_kept_as_far_as_it_fits() -> None:
    store = PrefixStore(3000)
    save(store, list(range(1000, 1200)))
    save(store, list(range(800)))
    assert found(store, list(range(800))) == 256


def test_a_piece_that_is_larger_than_the_store_is_refused_and_nothing_gives_way_in_vain_twice() -> None:
    store = PrefixStore(100)
    assert save(store, list(range(100))) == 0
    assert store.bytes == 0


def test_a_piece_that_is_of_no_use_goes_with_all_behind_it() -> None:
    store = PrefixStore(10**6)
    tokens = list(range(400))
    save(store, tokens)
    store.drop(store.find(tokens, 400).pieces[1])
    store.check_invariants()
    assert found(store, tokens) == 128
    assert store.tokens == 128


def test_a_conversation_of_a_thousand_turns_goes_too() -> None:
    """As deep as it is long, which is more than Python's stack has room for."""
    store = PrefixStore(10**9)
    tokens = list(range(1100 * LEAST_PIECE_TOKENS))
    for stop in range(LEAST_PIECE_TOKENS, len(tokens) + 1, LEAST_PIECE_TOKENS):
        missing = store.missing(tokens[:stop])
        assert missing is not None
        assert store.put(missing, tokens, SavedCells(missing.start, missing.stop, BYTES_A_TOKEN, tokens[:1]))
    store.drop(store.find(tokens, LEAST_PIECE_TOKENS).pieces[0])
    assert (store.tokens, store.bytes) == (0, 0)
    store.check_invariants()


def test_what_gave_way_while_it_was_restored_is_not_counted_as_used() -> None:
    store = PrefixStore(10**6)
    save(store, list(range(300)))
    piece = store.find(list(range(300)), 300).pieces[-1]
    store.drop(piece)
    store.use(piece)
    store.check_invariants()


def test_clear_forgets_everything() -> None:
    store = PrefixStore(10**6)
    save(store, list(range(300)), "legal")
    store.clear()
    store.check_invariants()
    assert (store.tokens, store.bytes, found(store, list(range(300)), "legal")) == (0, 0, 0)


def test_repr_is_a_line_for_a_dashboard() -> None:
    store = PrefixStore(10**6)
    save(store, list(range(150)))
    assert repr(store) == "<PrefixStore 150 tokens in 2 pieces, 0 MiB>"


prompts = st.builds(
    lambda which, length, ending: [which + index % 7 for index in range(length)] + ending,
    st.integers(0, 2),
    st.integers(0, 25),
    st.lists(st.integers(0, 3), max_size=6),
)


@given(
    st.lists(st.tuples(st.sampled_from(["save", "use", "drop"]), prompts), max_size=25), st.sampled_from([90, 10**6])
)
def test_whatever_was_stored_is_found_whole_and_counted_once(
    script: list[tuple[str, list[int]]], limit_bytes: int
) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        use_small_pieces(monkeypatch)
        store = PrefixStore(limit_bytes)
        for action, tokens in script:
            pieces = store.find(tokens, len(tokens)).pieces
            if action == "save":
                save(store, tokens)
                if limit_bytes > 10**5:
                    assert found(store, tokens) > len(tokens) - 2
            elif pieces:
                (store.use if action == "use" else store.drop)(pieces[-1])
            store.check_invariants()
            found(store, tokens)
