"""Packed log-probabilities: they come back as they went, and nothing else gets in."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.logprobs import LogprobEntry, LogprobPlace, pack_places, unpack_places

entries = st.builds(
    LogprobEntry,
    st.integers(0, 2**31 - 1),
    st.none() | st.floats(width=32, allow_nan=False),
    st.binary(max_size=8),
)
groups = st.lists(entries, max_size=3).map(tuple)
places = st.builds(LogprobPlace, entries, groups, groups)


@given(st.lists(places, max_size=4).map(tuple))
def test_places_come_back_as_they_went(written: tuple[LogprobPlace, ...]) -> None:
    assert unpack_places(pack_places(written)) == written


@given(st.lists(places, min_size=1, max_size=3), st.data())
def test_a_cut_is_noticed(written: list[LogprobPlace], data: st.DataObject) -> None:
    borders = {len(pack_places(written[:count])) for count in range(len(written) + 1)}
    packed = pack_places(written)
    length = data.draw(st.integers(1, len(packed) - 1).filter(lambda one: one not in borders))
    with pytest.raises(ValueError):
        unpack_places(packed[:length])


def test_the_layout_is_the_documented_one() -> None:
    place = LogprobPlace(LogprobEntry(7, -0.5, b"a"), (LogprobEntry(8, -1.0),))
    assert pack_places([place]) == b"\x01\x00" + struct.pack("<ifB", 7, -0.5, 1) + b"a" + struct.pack("<ifB", 8, -1, 0)


def test_a_piece_is_cut_rather_than_refused() -> None:
    (place,) = unpack_places(pack_places([LogprobPlace(LogprobEntry(1, 0.0, b"x" * 300))]))
    assert place.token.piece == b"x" * 255
