"""A tree of the token runs in the cells of the context, and which sequences pass through each.

It mirrors *physical* cells: two sequences that each evaluated the same tokens have two runs. Only `share` makes one
run belong to several sequences, exactly as llama.cpp's sequence copy does in a unified cache. So the cells in use
are the sum of the runs, a number that llama.cpp itself cannot be asked for.

What an adapter made of a token is of use with that adapter only, so each adapter has a root of its own.

Nothing here touches a backend; `prefix_cache` keeps the two in step.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field


@dataclass(slots=True, eq=False)
class TokenRun:
    """Cells of consecutive positions [start, stop) that the same sequences hold. All paths end at ends of runs."""

    parent: "TokenRun | None"
    start: int
    tokens: list[int]
    holders: set[int]
    children: dict[int, list["TokenRun"]] = field(default_factory=dict)  # by first token; twins are possible

    @property
    def stop(self) -> int:
        return self.start + len(self.tokens)


@dataclass(frozen=True, slots=True)
class PrefixMatch:
    """The longest run of tokens found: `tokens` of them, all held by `sequence_id` (None: nothing found)."""

    tokens: int
    sequence_id: int | None
    run: TokenRun  # in which it ends; the root when nothing was found


class PrefixTree:
    """Paths of sequences over shared runs of cells."""

    def __init__(self) -> None:
        self._roots: dict[str | None, TokenRun] = {}
        self._adapters: dict[int, str | None] = {}  # of each sequence; None: the model as it is
        self._ends: dict[int, TokenRun] = {}  # the last run of each sequence that holds cells
        self.cells = 0

    def __repr__(self) -> str:
        return f"<PrefixTree {self.cells} cells in {sum(1 for _ in self.runs())} runs, {len(self._ends)} sequences>"

    # Questions

    def length(self, sequence_id: int) -> int:
        """Tokens that the sequence holds."""
        return self._end(sequence_id).stop

    def end_of(self, sequence_id: int) -> TokenRun:
        """The run in which the sequence's path ends (the root for one that holds nothing)."""
        return self._end(sequence_id)

    def adapter_of(self, sequence_id: int) -> str | None:
        """The adapter that the sequence's cells are evaluated with."""
        return self._adapters.get(sequence_id)

    def tokens_of(self, sequence_id: int) -> list[int]:
        """The tokens in the sequence's cells, in order."""
        return [token for run in reversed(list(self.path(sequence_id))) for token in run.tokens]

    def path(self, sequence_id: int) -> Iterator[TokenRun]:
        """The runs that the sequence passes through, last first."""
        run = self._end(sequence_id)
        while run.parent is not None:
            yield run
            run = run.parent

    def runs(self) -> Iterator[TokenRun]:
        """Every run, in no particular order."""
        stack = list(self._roots.values())
        while stack:
            for twins in stack.pop().children.values():
                yield from twins
                stack.extend(twins)

    def longest_match(
        self, tokens: list[int], most: int, adapter: str | None = None, *, unless_held_only_by: int | None = None
    ) -> PrefixMatch:
        """The longest prefix of `tokens[:most]` that was evaluated with the adapter, leaving out what only one given
        sequence holds."""
        best = PrefixMatch(0, None, self._root(adapter))
        for run, matched in self.matching_runs(tokens, most, adapter):
            if run.holders == {unless_held_only_by} or run.start + matched <= best.tokens:
                continue
            holder = min(run.holders - {unless_held_only_by}) if len(run.holders) > 1 else min(run.holders)
            best = PrefixMatch(run.start + matched, holder, run)
        return best

    def matching_runs(self, tokens: list[int], most: int, adapter: str | None = None) -> Iterator[tuple[TokenRun, int]]:
        """The adapter's runs whose path agrees with `tokens[:most]`, with how many of the run's own tokens do (at least
        1)."""
        stack = [self._root(adapter)]
        while stack:
            parent = stack.pop()
            if parent.stop >= most:
                continue
            for run in parent.children.get(tokens[parent.stop], ()):
                matched = common_length(run.tokens, tokens, run.start, most)
                yield run, matched
                if matched == len(run.tokens):
                    stack.append(run)

    # Changes

    def use_adapter(self, sequence_id: int, adapter: str | None) -> None:
        """What the sequence, which holds nothing, evaluates from now on is evaluated with the adapter."""
        if self.length(sequence_id):
            raise ValueError(f"sequence {sequence_id} holds tokens of another adapter")
        self._adapters[sequence_id] = adapter

    def extend(self, sequence_id: int, tokens: Sequence[int]) -> None:
        """The sequence evaluated `tokens` after what it held: as many new cells."""
        if not tokens:
            return
        end = self._end(sequence_id)
        if end.parent is not None and end.holders == {sequence_id}:
            end.tokens.extend(tokens)
        else:
            run = TokenRun(end, end.stop, list(tokens), {sequence_id})
            end.children.setdefault(tokens[0], []).append(run)
            self._ends[sequence_id] = run
        self.cells += len(tokens)

    def share(self, source: int, target: int, length: int) -> None:
        """`target`, which holds nothing, joins the first `length` cells of `source`. No cell is taken."""
        if self.length(target) or not 0 < length <= self.length(source):
            raise ValueError(f"cannot share {length} tokens of sequence {source} with sequence {target}")
        run = self._boundary(source, length)
        self._ends[target] = run
        self._adapters[target] = self.adapter_of(source)
        while run.parent is not None:
            run.holders.add(target)
            run = run.parent

    def cut(self, sequence_id: int, length: int) -> int:
        """The sequence keeps its first `length` tokens. Returns how many cells nobody holds any more."""
        if length >= self.length(sequence_id):
            return 0
        root = self._root(self.adapter_of(sequence_id))
        keep = self._boundary(sequence_id, length) if length else root
        run = self._ends.pop(sequence_id)
        freed = 0
        while run is not keep and run.parent is not None:
            run.holders.discard(sequence_id)
            if not run.holders:
                freed += len(run.tokens)
                self._unlink(run)
            run = run.parent
        if keep is not root:
            self._ends[sequence_id] = keep
        self.cells -= freed
        return freed

    # Private

    def _end(self, sequence_id: int) -> TokenRun:
        return self._ends.get(sequence_id) or self._root(self.adapter_of(sequence_id))

    def _root(self, adapter: str | None) -> TokenRun:
        if adapter not in self._roots:
            self._roots[adapter] = TokenRun(None, 0, [], set())
        return self._roots[adapter]

    def _boundary(self, sequence_id: int, length: int) -> TokenRun:
        """The run of the sequence's path that ends at `length`; splits the run that spans it."""
        run = self._end(sequence_id)
        while run.start >= length and run.parent is not None:
            run = run.parent
        return run if run.stop == length else self._split(run, length - run.start)

    def _split(self, run: TokenRun, offset: int) -> TokenRun:
        """Cut one run in two; returns the head. All holders pass through both, since paths end at ends of runs."""
        assert run.parent is not None
        twins = run.parent.children[run.tokens[0]]
        head = TokenRun(run.parent, run.start, run.tokens[:offset], set(run.holders))
        twins[twins.index(run)] = head
        run.parent, run.start, run.tokens = head, run.start + offset, run.tokens[offset:]
        head.children[run.tokens[0]] = [run]
        return head

    def _unlink(self, run: TokenRun) -> None:
        assert run.parent is not None
        twins = run.parent.children[run.tokens[0]]
        twins.remove(run)
        if not twins:
            del run.parent.children[run.tokens[0]]

    def check_invariants(self) -> None:
        """Cells are counted once, paths are whole, no run is without a holder. Raises AssertionError."""
        runs = list(self.runs())
        assert self.cells == sum(len(run.tokens) for run in runs), "cells are miscounted"
        passing: dict[int, set[int]] = {id(run): set() for run in runs}
        for sequence_id in self._ends:
            for run in self.path(sequence_id):
                passing[id(run)].add(sequence_id)
        for run in runs:
            assert run.tokens, "an empty run"
            assert run.holders, "a run that nobody holds"
            assert run.holders == passing[id(run)], "holders and paths disagree"
            assert run.parent is not None, "the root has no tokens"
            assert run.start == run.parent.stop, "positions have a gap"


def common_length(run: list[int], tokens: list[int], at: int, most: int) -> int:
    """How many tokens of `run` equal `tokens[at:most]`, which may be empty, from its start. Compares slices: one C loop
    per halving."""
    length = max(0, min(len(run), most - at))
    if run[:length] == tokens[at : at + length]:
        return length
    low, high = 0, length - 1  # the first difference lies in [low, high]
    while low < high:
        middle = (low + high) // 2 + 1
        if run[low:middle] == tokens[at + low : at + middle]:
            low = middle
        else:
            high = middle - 1
    return low
