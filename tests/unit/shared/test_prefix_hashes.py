"""Prefix hashes: equal prefixes give equal hashes, and the first difference ends that."""

from shared.prefix_hashes import BLOCK_BYTES, MAX_HASHES, prefix_hashes


def test_hashes_are_equal_exactly_up_to_the_first_difference() -> None:
    base = bytes(range(256)) * 40
    changed = bytearray(base)
    changed[3 * BLOCK_BYTES] ^= 1
    ours, theirs = prefix_hashes(base, "text"), prefix_hashes(bytes(changed), "text")
    assert ours[:3] == theirs[:3]
    assert all(a != b for a, b in zip(ours[3:], theirs[3:], strict=True))


def test_a_longer_prompt_begins_with_the_hashes_of_the_shorter_one() -> None:
    base = b"x" * (5 * BLOCK_BYTES)
    assert prefix_hashes(base + b"y" * 5000, "text")[:5] == prefix_hashes(base, "text")


def test_short_prompts_have_none_and_long_ones_a_bounded_number() -> None:
    assert prefix_hashes(b"x" * (BLOCK_BYTES - 1), "text") == ()
    assert len(prefix_hashes(b"x" * BLOCK_BYTES * 200, "text")) == MAX_HASHES


def test_hashes_fit_the_wire_and_never_mix_texts_with_token_ids() -> None:
    text, tokens = prefix_hashes(b"x" * 9000, "text"), prefix_hashes(b"x" * 9000, "tokens")
    assert not set(text) & set(tokens)
    assert all(0 <= value < 2**63 for value in text + tokens)
