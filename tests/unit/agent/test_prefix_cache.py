"""Idle prefixes: what stays, what is dropped, what is evicted first. Tree and memory never disagree."""

from agent.core.prefix_cache import PrefixCache
from tests.support.scripted_backend import ScriptedBackend, scripted_backend


class Bench:
    """A cache whose sequences are filled without a scheduler."""

    def __init__(self, cells: int = 100, *, slots: int = 3, can_share: bool = True) -> None:
        self.backend: ScriptedBackend = scripted_backend(cells, can_share=can_share)
        self.cache = PrefixCache(self.backend, self.backend.limits, slots)

    def run(self, tokens: list[int]) -> int:
        """A member with these tokens, evaluated as far as they were not in memory; returns its sequence id."""
        match = self.cache.match([*tokens, 0])
        sequence_id = self.cache.attach(match)
        self.fill(sequence_id, tokens[match.tokens :])
        self.check()
        return sequence_id

    def fill(self, sequence_id: int, tokens: list[int]) -> None:
        """A decode evaluated these tokens after what the sequence held."""
        for position, token in enumerate(tokens, self.backend.evaluated_tokens(sequence_id)):
            self.backend._add_cell(sequence_id, position, token)
        self.cache.extend(sequence_id, tokens)

    def run_and_park(self, tokens: list[int]) -> None:
        self.cache.park(self.run(tokens))
        self.check()

    def idle(self) -> list[list[int]]:
        return list(self.cache.idle_paths())

    def check(self) -> None:
        self.cache.check_invariants()
        assert self.cache.used_cells == len(self.backend.cells)


def test_what_a_member_evaluated_stays_and_is_found_again() -> None:
    bench = Bench()
    bench.run_and_park([1, 2, 3])
    match = bench.cache.match([1, 2, 3, 4])
    assert match.tokens == 3
    assert bench.cache.cached_tokens == 3


def test_the_last_token_of_a_prompt_is_never_reused() -> None:
    bench = Bench()
    bench.run_and_park([1, 2, 3])
    assert bench.cache.match([1, 2, 3]).tokens == 2


def test_a_prefix_that_a_member_continues_gives_its_id_back() -> None:
    bench = Bench()
    bench.run_and_park([1, 2, 3])
    bench.run([1, 2, 3, 4])
    assert bench.idle() == []
    assert bench.cache.used_cells == 4


def test_a_prefix_that_a_member_leaves_half_way_stays() -> None:
    bench = Bench()
    bench.run_and_park([1, 2, 3])
    bench.run([1, 2, 9])
    assert bench.idle() == [[1, 2, 3]]
    assert bench.cache.used_cells == 4


def test_idle_prefixes_that_share_are_not_counted_twice() -> None:
    bench = Bench()
    bench.run_and_park([1, 2, 3])
    bench.run_and_park([1, 2, 9])
    assert bench.cache.cached_tokens == 4


def test_the_same_tokens_are_kept_once_even_if_they_were_evaluated_twice() -> None:
    bench = Bench()
    first, second = bench.cache.attach(bench.cache.match([7])), bench.cache.attach(bench.cache.match([7]))
    bench.fill(first, [5])
    bench.fill(second, [5])
    bench.cache.park(first)  # the other one, still running, has the same
    assert bench.idle() == []
    bench.cache.park(second)
    assert bench.idle() == [[5]]
    bench.check()


def test_a_longer_twin_replaces_the_prefix_it_covers() -> None:
    bench = Bench()
    short, long = bench.cache.attach(bench.cache.match([7])), bench.cache.attach(bench.cache.match([7]))
    bench.fill(short, [5, 6])
    bench.fill(long, [5])
    bench.cache.park(short)
    assert bench.idle() == [[5, 6]]
    bench.fill(long, [6, 7])
    bench.cache.park(long)
    assert bench.idle() == [[5, 6, 7]]
    assert bench.cache.used_cells == 3
    bench.check()


def test_the_least_recently_used_goes_first() -> None:
    bench = Bench()
    bench.run_and_park([1, 2])
    bench.run_and_park([3, 4])
    bench.cache.release(bench.run([1, 9]))  # uses [1, 2]
    assert bench.cache.evict_oldest()
    assert bench.idle() == [[1, 2]]
    assert bench.cache.evicted_tokens == 2
    assert bench.cache.evict_oldest()
    assert not bench.cache.evict_oldest()
    assert bench.backend.cells == []


def test_when_ids_for_parking_run_out_the_oldest_gives_its_one() -> None:
    bench = Bench(cells=1000, slots=254)  # two ids are left
    for token in (1, 2, 3):
        bench.run_and_park([token])
    assert bench.idle() == [[2], [3]]


def test_cells_of_running_members_are_not_called_cached() -> None:
    bench = Bench()
    bench.run_and_park([1, 2, 3])
    bench.run([1, 2, 9, 9])
    assert bench.cache.running_cells == 4
    assert bench.cache.cached_tokens == 1


def test_how_much_of_a_match_is_held_by_a_running_member() -> None:
    bench = Bench()
    bench.run_and_park([1, 2, 3, 4])
    assert bench.cache.running_part(bench.cache.match([1, 2, 3, 4, 5])) == 0
    bench.run([1, 2, 8])
    assert bench.cache.running_part(bench.cache.match([1, 2, 3, 4, 5])) == 2


def test_a_memory_that_cannot_share_keeps_nothing_and_matches_nothing() -> None:
    bench = Bench(can_share=False)
    bench.run_and_park([1, 2, 3])
    assert bench.backend.cells == []
    assert bench.cache.match([1, 2, 3, 4]).tokens == 0


def test_a_memory_that_cannot_be_cut_is_cleared() -> None:
    bench = Bench(can_share=False)
    sequence_id = bench.run([1, 2, 3])
    assert bench.cache.cut(sequence_id, 2) == 0
    bench.check()


def test_a_memory_that_holds_what_nobody_put_there_is_not_trusted() -> None:
    bench = Bench()
    sequence_id = bench.run([1, 2, 3])
    for position in range(3, 9):
        bench.backend._add_cell(sequence_id, position, 5)
    assert bench.cache.read_back(sequence_id, [5]) == 0
    bench.check()


def test_repr_is_a_line_for_a_dashboard() -> None:
    bench = Bench()
    bench.run_and_park([1, 2, 3])
    assert repr(bench.cache) == "<PrefixCache 3/100 cells | 1 idle>"


def test_prefixes_that_nobody_reuses_hold_an_eighth_of_the_pool_at_most() -> None:
    bench = Bench(cells=800)
    for start in range(0, 4000, 40):
        bench.run_and_park(list(range(start, start + 40)))
        assert bench.cache.cached_tokens <= 100
    assert bench.idle() == [list(range(3920, 3960)), list(range(3960, 4000))]
    assert bench.cache.evicted_tokens == 98 * 40


def test_the_newest_prefix_stays_however_long_it_is() -> None:
    bench = Bench(cells=800)
    bench.run_and_park(list(range(1000, 1040)))
    bench.run_and_park(list(range(300)))
    assert bench.idle() == [list(range(300))]


def test_a_prefix_that_was_reused_stays_while_others_come_and_go() -> None:
    bench = Bench(cells=800)
    shared = list(range(200))
    bench.run_and_park([*shared, 1000])
    bench.run_and_park([*shared, 1001])
    for start in range(2000, 6000, 40):
        bench.run_and_park(list(range(start, start + 40)))
    assert bench.cache.match([*shared, 1002, 0]).tokens == 200


def test_sharing_a_few_tokens_does_not_end_a_probation() -> None:
    bench = Bench(cells=800)
    for start in range(2000, 4000, 40):
        bench.run_and_park([1, *range(start, start + 40)])
    assert bench.cache.cached_tokens <= 100
