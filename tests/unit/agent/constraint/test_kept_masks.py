"""Where a text stands in a regular tree finds the mask that was made there, within a bound of memory."""

import numpy as np
from numpy.typing import NDArray

from agent.constraint.kept_masks import MOST_CHARACTERS, MOST_FOLLOWED, MOST_PLACES, KeptMasks, MaskRoom, Where
from agent.constraint.languages.regex import parse_regex
from agent.constraint.lark.counting import Counting

LONGEST = 4


def kept_masks(pattern: str, most_bytes: int = 10**6) -> KeptMasks:
    return KeptMasks(Counting.of(parse_regex(pattern), {}), LONGEST, most_bytes=most_bytes)


def after(kept: KeptMasks, text: bytes) -> Where:
    where = kept.after(Where(), text)
    assert where is not None, text
    return where


def mask(number: int) -> NDArray[np.int32]:
    return np.full(8, number, dtype=np.int32)


def test_a_mask_is_found_where_the_text_stands_the_same_and_nowhere_else() -> None:
    kept = kept_masks("([ab]{3} ){50}")
    assert kept.find(Where()) is None
    kept.keep(Where(), mask(1))
    kept.keep(after(kept, b"ab"), mask(2))
    found = kept.find(after(kept, b"aba bba ba"))
    assert found is not None
    assert found.tolist() == mask(2).tolist()
    for text in (b"a", b"aba", b"aba ", b"aba b"):
        assert kept.find(after(kept, text)) is None
    assert kept.find(after(kept, 48 * b"aba " + b"ba")) is None, "the end comes into sight"
    assert kept.find(Where()) is not None


def test_where_it_may_end_is_another_place() -> None:
    kept = kept_masks("a{30,60}")
    kept.keep(after(kept, 29 * b"a"), mask(1))
    assert kept.find(after(kept, 30 * b"a")) is None
    kept.keep(after(kept, 35 * b"a"), mask(2))
    assert kept.find(after(kept, 36 * b"a")) is not None


def test_characters_come_in_pieces() -> None:
    kept = kept_masks("[äö]{9}")
    where = after(kept, "ä".encode()[:1])
    assert where.places is None
    assert where.rest
    kept.keep(where, mask(3))
    assert kept.find(Where()) is None
    assert kept.find(where) is not None
    whole = kept.after(where, "ä".encode()[1:])
    assert whole == after(kept, "ä".encode())
    assert kept.after(where, b"x") is None
    assert kept.after(Where(), b"\xff") is None


def test_a_text_that_does_not_belong_there_is_no_longer_followed() -> None:
    assert kept_masks("a{3}").after(Where(), b"b") is None
    assert kept_masks("a{3}").after(Where(), b"aaaa") is None


def test_what_stands_in_too_many_places_is_no_longer_followed() -> None:
    kept = kept_masks("(a{1,30}){1,30}")
    assert kept_masks("a*").after(Where(), b"a" * (MOST_FOLLOWED + 1)) is None
    where: Where | None = Where()
    count = 0
    while where is not None:
        where = kept.after(where, b"a")
        count += 1
    assert 2 < count <= MOST_PLACES + 1


def test_no_more_is_kept_than_there_is_room_for_and_what_was_used_least_goes_first() -> None:
    kept = kept_masks("[a-z]{1,9} x{500}", most_bytes=3 * mask(0).nbytes)
    places = [after(kept, b"a" * count) for count in range(4, 9)]
    for number, place in enumerate(places):
        kept.keep(place, mask(number))
        kept.find(places[0])
    assert kept.size_bytes == 3 * mask(0).nbytes
    assert [kept.find(place) is not None for place in places] == [True, False, False, True, True]
    kept_masks("a", most_bytes=1).keep(Where(), mask(0))


def test_what_is_kept_is_a_copy() -> None:
    kept, bits = kept_masks("a{3}"), mask(5)
    kept.keep(Where(), bits)
    bits.fill(0)
    found = kept.find(Where())
    assert found is not None
    assert found.tolist() == mask(5).tolist()


def test_characters_are_remembered_within_a_bound() -> None:
    kept = kept_masks(".*")
    where: Where | None = Where()
    for code in range(0x4E00, 0x4E00 + MOST_CHARACTERS + 50):
        assert where is not None
        where = kept.after(where, chr(code).encode())
    assert len(kept._minterms) <= MOST_CHARACTERS


def test_the_masks_of_all_constraints_share_one_room_and_leave_it_with_their_constraint() -> None:
    room = MaskRoom(3 * mask(0).nbytes)
    counting = Counting.of(parse_regex("[a-z]{1,9} x{500}"), {})
    one, other = KeptMasks(counting, LONGEST, room), KeptMasks(counting, LONGEST, room)
    places = [after(one, b"a" * count) for count in range(4, 9)]
    for place in places[:2]:
        one.keep(place, mask(1))
    for place in places:
        other.keep(place, mask(2))
    assert [kept.size_bytes // mask(0).nbytes for kept in (one, other)] == [2, 1]
    assert other.find(places[-1]) is not None
    del one
    for place in places:
        other.keep(place, mask(2))
    assert other.size_bytes == 3 * mask(0).nbytes
