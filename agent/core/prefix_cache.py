"""What is in the context's cells: the paths of running members, and idle prefixes of members that ended.

This is the only module that copies, cuts or removes cells (`prefix_moves` is its hand for host memory). It changes
the tree and the memory together, so that `used_cells` (which llama.cpp cannot be asked for) is always what the
context really holds.

Idle cells are not free: attention passes over every cell up to the highest one in use. On two cores a step of one
stream (SmolLM2-135M) takes 12 % longer with 256 idle cells, 24 % with 1,400, 60 % with 11,000. So idle prefixes move
to host memory as soon as somebody else runs; while nobody does, they cost nothing and stay for the next turn of their
conversation. Where they cannot move, an idle prefix is on probation, with an eighth of the pool for all of those
together, until somebody reuses it.
"""

from collections import OrderedDict
from collections.abc import Iterator, Sequence

from agent.core.backend import BackendLimits, SequenceMemory
from agent.core.events import StoreStatistics
from agent.core.prefix_moves import REUSE_THAT_COUNTS_TOKENS, PrefixMoves
from agent.core.prefix_store import StoredPrefix
from agent.core.prefix_tree import PrefixMatch, PrefixTree
from agent.core.sequence_ids import SequenceIds

PROBATION_SHARE = 8
"""Idle prefixes that nobody has reused yet may hold one in this many cells; the newest of them always stays."""


class PrefixCache:
    """Cells by sequence. An idle prefix costs a sequence id and its own cells, until it is evicted.

    Where the memory cannot share prefixes (recurrent models) nothing is matched and nothing stays behind.
    """

    def __init__(self, memory: SequenceMemory, limits: BackendLimits, slots: int, store_bytes: int = 0) -> None:
        """`store_bytes`: how much idle prefixes may hold in host memory; 0: they stay in cells."""
        self._memory = memory
        self.capacity = limits.context_cells
        self.can_share = limits.can_share_prefixes
        self._tree = PrefixTree()
        self._ids = SequenceIds(slots, limits.sequence_ids)
        self._moves = PrefixMoves.between(memory, self._tree, limits, store_bytes, self._ids.spare)
        self._running: set[int] = set()
        self._idle: OrderedDict[int, None] = OrderedDict()  # least recently used first
        self._reused: set[int] = set()  # sequences, running or idle, whose beginning served more than one member
        self.evicted_tokens = 0

    def __repr__(self) -> str:
        return f"<PrefixCache {self.used_cells}/{self.capacity} cells | {len(self._idle)} idle>"

    # Questions

    @property
    def used_cells(self) -> int:
        """Cells that hold a token, each counted once however many sequences share it."""
        return self._tree.cells

    @property
    def free_cells(self) -> int:
        """Rows that one decode could evaluate now: llama.cpp finds room exactly when this many cells are free."""
        return self.capacity - self._tree.cells

    @property
    def running_cells(self) -> int:
        """Cells of running members; all others can be had by eviction."""
        runs = {id(run): len(run.tokens) for held in self._running for run in self._tree.path(held)}
        return sum(runs.values())

    @property
    def cached_tokens(self) -> int:
        """Cells that only idle prefixes hold."""
        return self.used_cells - self.running_cells

    def match(self, tokens: list[int], most: int | None = None, adapter: str | None = None) -> PrefixMatch:
        """The longest prefix that the same adapter can reuse, of at most `most` tokens: never all of `tokens`, since
        the last one must be evaluated for its logits."""
        limit = len(tokens) - 1 if most is None else min(most, len(tokens) - 1)
        return self._tree.longest_match(tokens, limit if self.can_share else 0, adapter)

    def find_stored(self, tokens: list[int], most: int, adapter: str | None, in_cells: int) -> StoredPrefix | None:
        """The longest prefix in host memory of at most `most` tokens, where that beats the `in_cells` tokens that
        `match` found by enough to be brought back."""
        return self._moves.find(tokens, most, adapter, in_cells)

    @property
    def running_ids(self) -> frozenset[int]:
        """Sequence ids of running members."""
        return frozenset(self._running)

    def running_part(self, match: PrefixMatch) -> int:
        """How many of the matched tokens a running member holds: reusing the rest takes cells from eviction."""
        run = match.run
        while run.parent is not None and run.holders.isdisjoint(self._running):
            run = run.parent
        return min(run.stop, match.tokens)

    def store_statistics(self) -> StoreStatistics:
        """Host memory in use, and what moved."""
        return self._moves.statistics()

    # Running members

    def attach(self, match: PrefixMatch, adapter: str | None = None) -> int:
        """A sequence id for a member that begins to run; it shares the matched cells. `match` must be fresh, and of
        this adapter."""
        sequence_id = self._ids.take_running()
        self._tree.use_adapter(sequence_id, adapter)
        self._running.add(sequence_id)
        if match.sequence_id is not None:
            self._memory.copy_prefix(match.sequence_id, sequence_id, match.tokens)
            self._tree.share(match.sequence_id, sequence_id, match.tokens)
            if match.tokens >= REUSE_THAT_COUNTS_TOKENS:
                self._reused |= {match.sequence_id, sequence_id}
            self._touch(match.sequence_id)
            self._drop_covered(sequence_id)
        return sequence_id

    def bring_back(self, sequence_id: int, stored: StoredPrefix) -> int:
        """Give a sequence that just attached what it lacks of the stored prefix, as far as there are cells; idle
        prefixes make room. Returns the sequence's length."""
        return self._moves.restore(sequence_id, stored, self._make_room)

    def extend(self, sequence_id: int, tokens: Sequence[int]) -> None:
        """A decode put `tokens` into new cells of the sequence."""
        self._tree.extend(sequence_id, tokens)

    def read_back(self, sequence_id: int, tokens: Sequence[int]) -> int:
        """A decode of `tokens` stopped half-way: take over what the memory holds. Returns the sequence's length."""
        before = self._tree.length(sequence_id)
        held = self._memory.evaluated_tokens(sequence_id)
        if not before <= held <= before + len(tokens):
            return self.cut(sequence_id, 0)  # not explicable: trust none of it
        self._tree.extend(sequence_id, tokens[: held - before])
        return held

    def cut(self, sequence_id: int, length: int) -> int:
        """Keep the first `length` tokens at most. Returns how many are left: 0 where the memory cannot be cut."""
        if not self._memory.remove_from(sequence_id, length):
            length = 0
            self._memory.remove_from(sequence_id, 0)
        self._tree.cut(sequence_id, length)
        return self._tree.length(sequence_id)

    def release(self, sequence_id: int, *, saves: bool = False) -> None:
        """The running member gives up its id and the cells that nobody else holds. saves: it will come back, so what
        it holds goes to host memory, if that is possible in this step."""
        if saves:
            self._moves.save(sequence_id)
        self._running.remove(sequence_id)
        self._give_back(sequence_id)

    def park(self, sequence_id: int) -> None:
        """The running member ended well: what it evaluated stays as an idle prefix, unless others hold the same."""
        tokens = self._tree.tokens_of(sequence_id) if self.can_share else []
        adapter = self._tree.adapter_of(sequence_id)
        twin = self._tree.longest_match(tokens, len(tokens), adapter, unless_held_only_by=sequence_id)
        if twin.tokens == len(tokens):
            if twin.sequence_id is not None:
                self._touch(twin.sequence_id)
            self.release(sequence_id)
            return
        self._drop_prefixes_of(tokens, adapter)
        parked = self._take_parking()
        self._memory.copy_prefix(sequence_id, parked, len(tokens))
        self._tree.share(sequence_id, parked, len(tokens))
        self._idle[parked] = None
        if sequence_id in self._reused:
            self._reused.add(parked)
        self.release(sequence_id)
        if not self._moves.are_possible:
            self._end_probations(parked)

    # Idle prefixes

    def evict_oldest(self) -> bool:
        """Free the cells of the least recently used idle prefix; False when there is none."""
        if not self._idle:
            return False
        oldest = next(iter(self._idle))
        self._moves.save(oldest)
        self.evicted_tokens += self._drop_idle(oldest)
        return True

    def move_idle_out(self) -> None:
        """Once a step in which somebody runs: idle prefixes go to host memory, as many as one step may copy."""
        self._moves.begin_step()
        while self._moves.are_possible and self._idle:
            oldest = next(iter(self._idle))
            if not self._moves.save(oldest):
                return
            self._drop_idle(oldest)

    def forget_stored(self) -> None:
        """Free the host memory of idle prefixes."""
        self._moves.forget()

    def _make_room(self, cells: int) -> bool:
        while self.free_cells < cells and self.evict_oldest():
            pass
        return self.free_cells >= cells

    def _end_probations(self, newest: int) -> None:
        """Forget the oldest of those that nobody has reused, while they hold more than their share."""
        untried = [idle for idle in self._idle if idle not in self._reused]
        excess = self._cells_only_of(untried) - self.capacity // PROBATION_SHARE
        for idle in untried:
            if excess > 0 and idle != newest:
                freed = self._drop_idle(idle)
                self.evicted_tokens += freed
                excess -= freed

    def _cells_only_of(self, sequence_ids: list[int]) -> int:
        holders = set(sequence_ids)
        runs = {id(run): run for held in sequence_ids for run in self._tree.path(held)}
        return sum(len(run.tokens) for run in runs.values() if run.holders <= holders)

    def _take_parking(self) -> int:
        while (parked := self._ids.take_parking()) is None:
            self.evict_oldest()
        return parked

    def _touch(self, sequence_id: int) -> None:
        if sequence_id in self._idle:
            self._idle.move_to_end(sequence_id)

    def _drop_covered(self, sequence_id: int) -> None:
        """Idle prefixes that end where the sequence now goes on cost an id and hold no cell of their own."""
        end = self._tree.end_of(sequence_id)
        for idle in [idle for idle in end.holders if idle in self._idle and self._tree.end_of(idle) is end]:
            self._drop_idle(idle)

    def _drop_prefixes_of(self, tokens: list[int], adapter: str | None) -> None:
        """Idle prefixes of the same tokens, be it in cells of their own, are of no more use."""
        matching = self._tree.matching_runs(tokens, len(tokens), adapter)
        whole = {id(run) for run, matched in matching if matched == len(run.tokens)}
        for idle in [idle for idle in self._idle if id(self._tree.end_of(idle)) in whole]:
            self._drop_idle(idle)

    def _drop_idle(self, sequence_id: int) -> int:
        del self._idle[sequence_id]
        return self._give_back(sequence_id)

    def _give_back(self, sequence_id: int) -> int:
        self._memory.remove_from(sequence_id, 0)
        self._ids.release(sequence_id)
        self._reused.discard(sequence_id)
        return self._tree.cut(sequence_id, 0)

    # Self-check

    def idle_paths(self) -> Iterator[list[int]]:
        """Tokens of each idle prefix, least recently used first."""
        return (self._tree.tokens_of(idle) for idle in self._idle)

    def tokens_of(self, sequence_id: int) -> list[int]:
        """Tokens in the cells of a sequence."""
        return self._tree.tokens_of(sequence_id)

    def adapter_of(self, sequence_id: int) -> str | None:
        """The adapter that the sequence's cells are evaluated with."""
        return self._tree.adapter_of(sequence_id)

    def check_invariants(self) -> None:
        """Raises AssertionError when tree, ids and memory disagree."""
        self._tree.check_invariants()
        self._moves.check_invariants()
        assert self.used_cells <= self.capacity, "more cells than there are"
        assert self._running.isdisjoint(self._idle), "a sequence is running and idle"
        self._ids.check_invariants([*self._running, *self._idle])
        assert self._reused <= self._running | self._idle.keys(), "a sequence that is gone counts as reused"
        for sequence_id in (*self._running, *self._idle):
            assert self._memory.evaluated_tokens(sequence_id) == self._tree.length(sequence_id), sequence_id
        for idle in self._idle:
            assert self._tree.end_of(idle).holders == {idle}, "an idle prefix that others cover"
