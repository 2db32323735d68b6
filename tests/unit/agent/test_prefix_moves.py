"""Idle prefixes leave the cells for host memory while others run, and come back. Cells and counts stay right."""

from dataclasses import replace

import pytest

from agent.core import prefix_moves
from agent.core.prefix_cache import PrefixCache
from tests.support.scripted_backend import BYTES_A_TOKEN, ScriptedBackend, digest, scripted_backend
from tests.support.small_pieces import use_small_pieces

FIRST = list(range(20))
SECOND = list(range(50, 70))


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    use_small_pieces(monkeypatch)


class Bench:
    """A cache with a store, whose sequences are filled without a scheduler; each cell must hold the right digest."""

    def __init__(self, cells: int = 200, store_bytes: int = 10**6, *, slots: int = 3, can_save: bool = True) -> None:
        self.backend: ScriptedBackend = scripted_backend(cells, ids=slots + 1)
        self.backend.limits = replace(self.backend.limits, can_save_cells=can_save)
        self.cache = PrefixCache(self.backend, self.backend.limits, slots, store_bytes)

    def begin(self, tokens: list[int], adapter: str | None = None) -> int:
        """A member begins; returns its sequence id. It holds what was found, and nothing is evaluated yet."""
        prompt = [*tokens, 0]
        match = self.cache.match(prompt, adapter=adapter)
        stored = self.cache.find_stored(prompt, len(tokens), adapter, match.tokens)
        sequence_id = self.cache.attach(match, adapter)
        if stored:
            assert self.cache.bring_back(sequence_id, stored) == self.backend.evaluated_tokens(sequence_id)
        self.check()
        return sequence_id

    def run(self, tokens: list[int], adapter: str | None = None) -> int:
        """The same, evaluated to the end."""
        sequence_id = self.begin(tokens, adapter)
        held = self.backend.evaluated_tokens(sequence_id)
        for position in range(held, len(tokens)):
            self.backend._add_cell(sequence_id, position, tokens[position], adapter)
        self.cache.extend(sequence_id, tokens[held:])
        self.check()
        return sequence_id

    def run_and_park(self, tokens: list[int], adapter: str | None = None) -> None:
        self.cache.park(self.run(tokens, adapter))
        self.check()

    def move_out(self) -> None:
        """A step begins in which somebody else runs."""
        self.cache.move_idle_out()
        self.check()

    def held(self, sequence_id: int) -> int:
        return self.backend.evaluated_tokens(sequence_id)

    def check(self) -> None:
        self.cache.check_invariants()
        assert self.cache.used_cells == len(self.backend.cells)
        for sequence_id in self.cache.running_ids:
            seen: list[tuple[int, int]] = []
            adapter = self.cache.adapter_of(sequence_id)
            for position, token in enumerate(self.cache.tokens_of(sequence_id)):
                seen.append((position, digest(token, position, seen, adapter)))
            held = [(cell.position, cell.digest) for cell in self.backend.cells if sequence_id in cell.holders]
            assert sorted(held) == seen, "a cell holds something else"


def test_while_nobody_else_runs_a_prefix_stays_in_its_cells() -> None:
    bench = Bench()
    bench.run_and_park(FIRST)
    bench.run([*FIRST, 30])
    bench.move_out()
    assert bench.cache.store_statistics().saved_tokens == 0


def test_it_leaves_when_somebody_else_runs_and_comes_back_whole() -> None:
    bench = Bench()
    bench.run_and_park(FIRST)
    other = bench.run(SECOND)
    bench.move_out()
    assert bench.cache.used_cells == len(SECOND)
    assert bench.cache.store_statistics().stored_bytes == 20 * BYTES_A_TOKEN
    bench.cache.release(other)
    assert bench.held(bench.begin(FIRST)) == 20
    assert bench.cache.used_cells == 20
    assert bench.cache.store_statistics().restored_tokens == 20


def test_only_what_is_needed_of_it_comes_back() -> None:
    bench = Bench()
    bench.run_and_park(FIRST)
    bench.run(SECOND)
    bench.move_out()
    assert bench.held(bench.begin([*FIRST[:15], 90, 91])) == 15
    assert bench.cache.used_cells == len(SECOND) + 15


def test_what_others_hold_in_cells_is_shared_and_the_rest_comes_back_behind_it() -> None:
    bench = Bench()
    bench.run_and_park(FIRST)
    bench.run(SECOND)
    bench.move_out()
    bench.cache.release(bench.begin(FIRST[:1]))
    bench.run([*FIRST[:9], 90])  # restores nine of them and goes its own way
    restored = bench.cache.store_statistics().restored_tokens
    assert bench.held(bench.begin(FIRST)) == 20
    assert bench.cache.store_statistics().restored_tokens - restored == 11
    assert bench.cache.used_cells == len(SECOND) + 10 + 11


def test_a_few_tokens_more_than_cells_have_are_not_worth_a_copy() -> None:
    bench = Bench()
    bench.run_and_park(FIRST)
    bench.run(SECOND)
    bench.move_out()
    bench.run([*FIRST[:18], 90])
    assert bench.held(bench.begin(FIRST)) == 18


def test_an_adapter_never_gets_the_cells_of_another() -> None:
    bench = Bench()
    bench.run_and_park(FIRST, "legal")
    bench.run(SECOND)
    bench.move_out()
    assert bench.held(bench.begin(FIRST)) == 0
    assert bench.held(bench.begin(FIRST, "legal")) == 20


def test_a_prefix_that_is_evicted_for_its_cells_is_not_lost() -> None:
    bench = Bench()
    bench.run_and_park(FIRST)
    assert bench.cache.evict_oldest()
    assert bench.cache.used_cells == 0
    assert bench.held(bench.begin(FIRST)) == 20


def test_idle_prefixes_make_room_for_what_comes_back() -> None:
    bench = Bench(cells=45)
    bench.run_and_park(FIRST)
    bench.run_and_park(SECOND)
    bench.cache.evict_oldest()
    bench.run([90, 91, 92, 93, 94, 95, 96, 80, 81, 82])
    assert bench.held(bench.begin(FIRST)) == 20
    assert bench.cache.evicted_tokens == 40


def test_where_there_is_no_room_as_much_comes_back_as_fits() -> None:
    bench = Bench(cells=35)
    bench.run_and_park(FIRST)
    bench.cache.evict_oldest()
    bench.run(SECOND)
    assert bench.held(bench.begin(FIRST)) == 12  # the third piece of six does not fit into three cells


def test_a_memory_that_refuses_a_copy_is_not_asked_for_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    bench.run_and_park(FIRST)
    bench.cache.evict_oldest()
    monkeypatch.setattr(ScriptedBackend, "restore_cells", lambda *_: False)
    assert bench.held(bench.begin(FIRST)) == 0
    assert bench.cache.store_statistics().stored_tokens == 0


def test_what_the_memory_has_forgotten_is_not_stored() -> None:
    bench = Bench()
    bench.backend.forgets_from = 12
    bench.run_and_park(FIRST)
    bench.cache.evict_oldest()
    assert bench.held(bench.begin(FIRST)) == 12


def test_a_step_copies_a_bounded_amount_and_the_rest_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefix_moves, "MOST_BYTES_A_STEP", 8 * BYTES_A_TOKEN)
    bench = Bench()
    bench.run_and_park(FIRST)
    bench.run(SECOND)
    bench.move_out()
    assert bench.cache.store_statistics().saved_tokens == 12
    assert list(bench.cache.idle_paths()) == [FIRST]
    bench.move_out()
    assert bench.cache.store_statistics().saved_tokens == 20
    assert list(bench.cache.idle_paths()) == []


def test_under_pressure_what_cannot_be_copied_in_this_step_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefix_moves, "MOST_BYTES_A_STEP", 8 * BYTES_A_TOKEN)
    bench = Bench()
    bench.run_and_park(FIRST)
    bench.cache.evict_oldest()
    assert bench.held(bench.begin(FIRST)) == 12


def test_one_that_is_set_aside_finds_its_cells_again() -> None:
    bench = Bench()
    bench.cache.release(bench.run(FIRST), saves=True)
    assert bench.cache.used_cells == 0
    assert bench.held(bench.begin(FIRST)) == 20


def test_the_oldest_gives_way_in_a_full_store() -> None:
    bench = Bench(store_bytes=25 * BYTES_A_TOKEN)
    bench.run_and_park(FIRST)
    bench.run_and_park(SECOND)
    bench.run([90])
    bench.move_out()
    assert bench.held(bench.begin(SECOND)) == 20
    assert bench.held(bench.begin(FIRST)) == 0


@pytest.mark.parametrize("bench", [Bench(store_bytes=0), Bench(can_save=False), Bench(slots=255)])
def test_where_nothing_can_move_prefixes_stay_in_cells(bench: Bench) -> None:
    bench.run_and_park(FIRST)
    bench.run(SECOND)
    bench.move_out()
    assert list(bench.cache.idle_paths()) == [FIRST]
    assert bench.cache.evict_oldest()
    assert bench.held(bench.begin(FIRST)) == 0


def test_the_store_can_be_forgotten() -> None:
    bench = Bench()
    bench.run_and_park(FIRST)
    bench.cache.evict_oldest()
    bench.cache.forget_stored()
    assert bench.cache.store_statistics().stored_bytes == 0
    assert bench.held(bench.begin(FIRST)) == 0
