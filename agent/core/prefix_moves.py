"""Copies of cells out to host memory and back. The prefix cache's own hand: that decides what goes and what comes.

A copy is bound to its positions, so a piece comes back where it was: into a sequence that holds all before it.
"""

from collections.abc import Callable

from agent.core.backend import BackendLimits, SequenceMemory
from agent.core.events import StoreStatistics
from agent.core.prefix_store import PrefixStore, StoredPrefix
from agent.core.prefix_tree import PrefixTree

MOST_BYTES_A_STEP = 48 << 20
"""Copied out in one step at most: 10 ms of a quiet host, 60 ms of one with no core to spare (1.3 ms per MB measured).
The rest follows in later steps."""

REUSE_THAT_COUNTS_TOKENS = 32
"""A shared BOS token or the opening of a template says nothing about a prefix."""


class PrefixMoves:
    """Owns the store; works on the cache's tree."""

    def __init__(self, memory: SequenceMemory, tree: PrefixTree, limit_bytes: int, through: int | None) -> None:
        """`through`: a sequence id for rows that nothing else uses; None: nothing moves."""
        self._memory = memory
        self._tree = tree
        self._through = through if limit_bytes > 0 else None
        self._store = PrefixStore(limit_bytes)
        self._bytes_left = MOST_BYTES_A_STEP
        self._saved_tokens = 0
        self._restored_tokens = 0

    @classmethod
    def between(
        cls, memory: SequenceMemory, tree: PrefixTree, limits: BackendLimits, limit_bytes: int, spare_id: int | None
    ) -> "PrefixMoves":
        """For a memory that may be unable to move anything."""
        can_move = limits.can_share_prefixes and limits.can_save_cells
        return cls(memory, tree, limit_bytes, spare_id if can_move else None)

    @property
    def are_possible(self) -> bool:
        """Whether anything is ever stored."""
        return self._through is not None

    def find(self, tokens: list[int], most: int, adapter: str | None, in_cells: int) -> StoredPrefix | None:
        """The longest prefix in the store of at most `most` tokens, where that is worth more than what cells hold."""
        found = self._store.find(tokens, min(most, len(tokens) - 1), adapter)
        return found if found.tokens >= in_cells + REUSE_THAT_COUNTS_TOKENS else None

    def begin_step(self) -> None:
        """What may be copied out in one step is counted anew."""
        self._bytes_left = MOST_BYTES_A_STEP

    def save(self, sequence_id: int) -> bool:
        """Store what is not stored yet of the sequence. False: not all of it, this step has copied enough.

        True also when the rest cannot be stored: nothing is gained by asking again.
        """
        if self._through is None:
            return True
        tokens, adapter = self._tree.tokens_of(sequence_id), self._tree.adapter_of(sequence_id)
        while (missing := self._store.missing(tokens, adapter)) is not None:
            if self._bytes_left <= 0:
                return False
            saved = self._memory.save_cells(sequence_id, missing.start, missing.stop, self._through)
            if saved is None or not self._store.put(missing, tokens, saved):
                return True
            self._bytes_left -= saved.size_bytes
            self._saved_tokens += missing.stop - missing.start
        return True

    def restore(self, sequence_id: int, stored: StoredPrefix, make_room: Callable[[int], bool]) -> int:
        """Give the sequence what it lacks of the stored prefix, as far as `make_room` finds cells for whole pieces.
        Returns its length."""
        assert self._through is not None
        for piece in stored.pieces:
            held, stop = self._tree.length(sequence_id), min(piece.stop, stored.tokens)
            if stop <= held:
                continue
            if piece.saved is None or not make_room(len(piece.tokens)):
                break
            if not self._memory.restore_cells(piece.saved, sequence_id, stop, self._through):
                self._store.drop(piece)  # there was room, so it is of no use
                break
            self._tree.extend(sequence_id, piece.tokens[held - piece.start : stop - piece.start])
            self._store.use(piece)
            self._restored_tokens += stop - held
        return self._tree.length(sequence_id)

    def forget(self) -> None:
        """Free the host memory."""
        self._store.clear()

    def statistics(self) -> StoreStatistics:
        """As of now."""
        return StoreStatistics(self._store.tokens, self._store.bytes, self._saved_tokens, self._restored_tokens)

    def check_invariants(self) -> None:
        """Raises AssertionError when the store's counts are wrong or the id for copies is in use."""
        self._store.check_invariants()
        assert self._through is None or not self._memory.evaluated_tokens(self._through), "the id for copies has cells"
