"""Text from token bytes: whole characters, and a replacement mark only for what can never be one."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.text_assembly import TextAssembler

REPLACEMENT = "\ufffd"

# Bytes that matter to UTF-8: leads of every length, continuations at the edges of their ranges, never-valid ones.
TELLING_BYTES = bytes.fromhex("41 7f 80 8f 90 9f a0 bf c0 c1 c2 df e0 e1 ec ed ee ef f0 f1 f3 f4 f5 f8 ff")
ragged_bytes = st.lists(st.sampled_from(TELLING_BYTES) | st.integers(0, 255), max_size=24).map(bytes)

# Lead bytes, what may follow them, and the length of the character in bytes.
WELL_FORMED = [
    (range(0xC2, 0xE0), range(0x80, 0xC0), 2),
    (range(0xE0, 0xE1), range(0xA0, 0xC0), 3),
    (range(0xE1, 0xED), range(0x80, 0xC0), 3),
    (range(0xED, 0xEE), range(0x80, 0xA0), 3),
    (range(0xEE, 0xF0), range(0x80, 0xC0), 3),
    (range(0xF0, 0xF1), range(0x90, 0xC0), 4),
    (range(0xF1, 0xF4), range(0x80, 0xC0), 4),
    (range(0xF4, 0xF5), range(0x80, 0x90), 4),
]


def split(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


def assemble(pieces: list[bytes]) -> str:
    assembler = TextAssembler()
    return "".join([assembler.push(piece) for piece in pieces]) + assembler.flush()


def can_complete(data: bytes) -> bool:
    """Whether `data` is a proper beginning of exactly one character (Unicode, table 3-7)."""
    for leads, seconds, length in WELL_FORMED:
        if data and data[0] in leads:
            in_range = all(0x80 <= byte <= 0xBF for byte in data[2:])
            return len(data) < length and in_range and (len(data) < 2 or data[1] in seconds)
    return False


def without_cut_character(data: bytes) -> bytes:
    """`data` without the longest tail (at most 3 bytes) that is an unfinished character."""
    for length in (3, 2, 1):
        if length <= len(data) and can_complete(data[-length:]):
            return data[:-length]
    return data


@given(st.text(), st.lists(st.integers(0, 10_000), max_size=12))
def test_any_split_of_valid_text_gives_the_text_back(text: str, cuts: list[int]) -> None:
    assert assemble(split(text.encode(), cuts)) == text


@given(st.text(st.characters(min_codepoint=0x80, exclude_categories=["Cs"]), min_size=1))
def test_byte_by_byte_each_character_leaves_with_its_last_byte_and_not_before(text: str) -> None:
    assembler = TextAssembler()
    for character in text:
        *leading, last = character.encode()
        assert [assembler.push(bytes([byte])) for byte in leading] == [""] * len(leading)
        assert assembler.push(bytes([last])) == character
        assert assembler.pending_bytes == b""


@given(ragged_bytes, st.lists(st.integers(0, 10_000), max_size=12))
def test_any_split_of_any_bytes_gives_what_decoding_at_once_gives(data: bytes, cuts: list[int]) -> None:
    assert assemble(split(data, cuts)) == without_cut_character(data).decode("utf-8", "replace")


@given(ragged_bytes)
def test_only_the_beginning_of_a_possible_character_is_ever_held_back(data: bytes) -> None:
    assembler = TextAssembler()
    for byte in data:
        assembler.push(bytes([byte]))
        assert assembler.pending_bytes == b"" or can_complete(assembler.pending_bytes)


def test_every_two_byte_beginning_is_held_back_exactly_if_it_can_complete() -> None:
    for first in range(0x80, 0x100):
        for second in range(0x100):
            beginning = bytes([first, second])
            assembler = TextAssembler()
            assembler.push(beginning)
            assert (assembler.pending_bytes == beginning) == can_complete(beginning), beginning.hex()


@pytest.mark.parametrize(
    ("data", "marks"),
    [
        (b"\xc0\xaf", 2),  # overlong slash
        (b"\xe0\x80\xaf", 3),  # overlong, three bytes
        (b"\xed\xa0\x80", 3),  # a surrogate
        (b"\xed\xa0", 2),  # a surrogate begun: it can never complete, so it is not a cut character
        (b"\xf4\x90\x80\x80", 4),  # above U+10FFFF
        (b"\xf5", 1),
        (b"\xff\xfe", 2),
        (b"\x80", 1),  # a continuation on its own
        (b"\xf0\x9f\x98A", 1),  # three bytes of an emoji, then a letter: one maximal subpart, one mark
    ],
)
def test_what_can_never_complete_is_replaced_at_once(data: bytes, marks: int) -> None:
    whole, single = TextAssembler(), TextAssembler()
    assert whole.push(data).count(REPLACEMENT) == marks
    assert "".join(single.push(bytes([byte])) for byte in data).count(REPLACEMENT) == marks
    assert whole.pending_bytes == single.pending_bytes == b""


@pytest.mark.parametrize("length", [1, 2, 3])
def test_a_character_cut_by_the_end_of_generation_is_dropped(length: int) -> None:
    """C14: the limit falls into an emoji; no replacement mark, nothing lost before it."""
    assembler = TextAssembler()
    assert assembler.push(b"end " + "🫠".encode()[:length]) == "end "
    assert assembler.flush() == ""


def test_it_is_empty_after_a_flush() -> None:
    assembler = TextAssembler()
    assembler.push(b"\xf0\x9f")
    assembler.flush()
    assert assembler.pending_bytes == b""
    assert assembler.push(b"A") == "A"
    assert assembler.flush() == ""


def test_empty_pieces_change_nothing() -> None:
    """Control tokens stand for no bytes."""
    assembler = TextAssembler()
    assert [assembler.push(piece) for piece in (b"\xc3", b"", b"\xa9", b"")] == ["", "", "é", ""]
