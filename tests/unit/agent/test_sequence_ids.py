"""Two ranges of ids, each given back exactly once."""

import pytest

from agent.core.backend import HIGHEST_SEQUENCE_ID
from agent.core.sequence_ids import SequenceIds


def test_running_members_use_ids_below_the_slots_and_parked_prefixes_the_rest() -> None:
    ids = SequenceIds(slots=2)
    assert [ids.take_running(), ids.take_running()] == [0, 1]
    parked = [ids.take_parking() for _ in range(HIGHEST_SEQUENCE_ID - 1)]
    assert parked == list(range(2, HIGHEST_SEQUENCE_ID + 1))
    assert ids.take_parking() is None
    ids.check_invariants(range(HIGHEST_SEQUENCE_ID + 1))


def test_parked_prefixes_never_take_a_running_id() -> None:
    ids = SequenceIds(slots=HIGHEST_SEQUENCE_ID)
    assert ids.take_parking() == HIGHEST_SEQUENCE_ID
    assert ids.take_parking() is None
    assert ids.take_running() == 0


def test_one_id_that_rows_may_use_can_be_spared() -> None:
    ids = SequenceIds(slots=2, row_ids=6)
    assert ids.spare == 5
    assert [ids.take_parking() for _ in range(4)] == [2, 3, 4, 6]
    assert SequenceIds(slots=2, row_ids=2).spare is None
    assert SequenceIds(slots=HIGHEST_SEQUENCE_ID, row_ids=HIGHEST_SEQUENCE_ID + 1).spare is None  # it parks
    ids.check_invariants([2, 3, 4, 6])


def test_an_id_given_back_is_handed_out_again() -> None:
    ids = SequenceIds(slots=3)
    for _ in range(3):
        ids.take_running()
    ids.release(1)
    assert ids.take_running() == 1
    assert ids.taken == {0, 1, 2}


def test_more_running_members_than_slots_is_a_bug() -> None:
    ids = SequenceIds(slots=1)
    ids.take_running()
    with pytest.raises(IndexError):
        ids.take_running()


def test_giving_back_twice_is_a_bug() -> None:
    ids = SequenceIds(slots=1)
    ids.release(ids.take_running())
    with pytest.raises(KeyError):
        ids.release(0)


@pytest.mark.parametrize("slots", [0, -1, HIGHEST_SEQUENCE_ID + 1])
def test_impossible_numbers_of_slots_are_refused(slots: int) -> None:
    with pytest.raises(ValueError):
        SequenceIds(slots)


def test_the_check_notices_an_id_that_nobody_uses() -> None:
    ids = SequenceIds(slots=1)
    ids.take_running()
    with pytest.raises(AssertionError):
        ids.check_invariants([])


def test_repr_is_a_line_for_a_dashboard() -> None:
    ids = SequenceIds(slots=2)
    ids.take_running()
    assert repr(ids) == "<SequenceIds 1+254 free | 1 taken>"
