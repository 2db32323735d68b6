"""Idle prefixes in host memory: which tokens are stored, and which of them give way.

A prefix is stored in pieces of at most PIECE_TOKENS that hang together as a tree, so what many prompts begin with is
stored once, a conversation that went on stores what is new, and no single copy takes long. A piece is whole or not
there: what it holds is opaque. Like cells, it is of use with the adapter that it was evaluated with only.

Nothing here touches a backend; `prefix_moves` copies.
"""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field

from agent.core.backend import SavedCells
from agent.core.prefix_tree import common_length

PIECE_TOKENS = 128
"""At 22 kB a token (SmolLM2-135M) copied in a millisecond; at 512 kB (7B without grouped heads) in 25 ms."""

LEAST_PIECE_TOKENS = 32
"""Evaluating fewer tokens again takes one step."""


@dataclass(slots=True, eq=False)
class StoredPiece:
    """Positions [start, stop) of the prefix that its parents begin. Only a root, which holds nothing, has no parent."""

    parent: "StoredPiece | None"
    start: int
    tokens: list[int]
    saved: SavedCells | None
    children: dict[tuple[int, ...], list["StoredPiece"]] = field(default_factory=dict)  # by first tokens

    @property
    def stop(self) -> int:
        return self.start + len(self.tokens)

    def path(self) -> Iterator["StoredPiece"]:
        """Itself and its parents but the root, last first."""
        piece = self
        while piece.parent is not None:
            yield piece
            piece = piece.parent


@dataclass(frozen=True, slots=True)
class StoredPrefix:
    """The first `tokens` tokens of a prompt are in `pieces`, in this order; the last one may hold more than they."""

    tokens: int
    pieces: tuple[StoredPiece, ...]


@dataclass(frozen=True, slots=True)
class MissingPiece:
    """What to store next of a prefix: its tokens up to `stop`, behind `parent`."""

    parent: StoredPiece
    stop: int

    @property
    def start(self) -> int:
        return self.parent.stop


class PrefixStore:
    """Pieces in order of use. A parent is always more recent than its children, so leaves give way first."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._roots: dict[str | None, StoredPiece] = {}  # by adapter
        self._pieces: OrderedDict[StoredPiece, None] = OrderedDict()  # least recently used first
        self.tokens = 0
        self.bytes = 0

    def __repr__(self) -> str:
        return f"<PrefixStore {self.tokens} tokens in {len(self._pieces)} pieces, {self.bytes >> 20} MiB>"

    # Questions

    def find(self, tokens: list[int], most: int, adapter: str | None = None) -> StoredPrefix:
        """The longest stored prefix of `tokens[:most]`; less than LEAST_PIECE_TOKENS of a last piece do not count."""
        best, best_tokens = self._root(adapter), 0
        for piece, matched in self._matching(tokens, most, adapter):
            if piece.start + matched > best_tokens:
                best, best_tokens = piece, piece.start + matched
        return StoredPrefix(best_tokens, tuple(reversed(list(best.path()))))

    def missing(self, tokens: list[int], adapter: str | None = None) -> MissingPiece | None:
        """What to store next of a prefix; None when all of it that counts is stored.

        It ends where it parts from another one, so that the next prompt that begins so finds all of that.
        """
        parent, parting = self._root(adapter), 0
        for piece, matched in self._matching(tokens, len(tokens), adapter):
            if matched == len(piece.tokens) and piece.stop > parent.stop:
                parent = piece
            parting = max(parting, piece.start + matched)
        stop = min(parent.stop + PIECE_TOKENS, len(tokens))
        if 0 < len(tokens) - stop < LEAST_PIECE_TOKENS:
            stop = len(tokens) - LEAST_PIECE_TOKENS
        if parting - parent.stop >= LEAST_PIECE_TOKENS:
            stop = min(stop, parting)
        return MissingPiece(parent, stop) if stop - parent.stop >= LEAST_PIECE_TOKENS else None

    # Changes

    def put(self, missing: MissingPiece, tokens: list[int], saved: SavedCells) -> bool:
        """Store `tokens[missing.start : missing.stop]`; others give way. False when it would crowd out its parent."""
        self.use(missing.parent)
        while self.bytes + saved.size_bytes > self._limit_bytes:
            oldest = next(iter(self._pieces), missing.parent)
            if oldest is missing.parent:
                return False
            self._remove(oldest)
        piece = StoredPiece(missing.parent, missing.start, tokens[missing.start : missing.stop], saved)
        missing.parent.children.setdefault(_key(piece.tokens, 0), []).append(piece)
        self.bytes += saved.size_bytes
        self.tokens += len(piece.tokens)
        self._pieces[piece] = None
        self.use(piece)
        return True

    def use(self, piece: StoredPiece) -> None:
        """It and its parents are the most recently used ones."""
        for one in piece.path():
            if one in self._pieces:  # else it gave way while it was being restored
                self._pieces.move_to_end(one)

    def drop(self, piece: StoredPiece) -> None:
        """Forget the piece and all behind it."""
        if piece not in self._pieces:
            return  # it gave way already, and then so did all behind it
        doomed = [piece]
        for one in doomed:  # grows as it is walked: as deep as a conversation is long
            doomed.extend(child for twins in one.children.values() for child in twins)
        for one in reversed(doomed):
            self._remove(one)

    def clear(self) -> None:
        """Forget everything."""
        self._roots.clear()
        self._pieces.clear()
        self.tokens = self.bytes = 0

    # Private

    def _root(self, adapter: str | None) -> StoredPiece:
        if adapter not in self._roots:
            self._roots[adapter] = StoredPiece(None, 0, [], None)
        return self._roots[adapter]

    def _matching(self, tokens: list[int], most: int, adapter: str | None) -> Iterator[tuple[StoredPiece, int]]:
        """Pieces whose path agrees with `tokens[:most]`, with how many of the piece's own tokens do."""
        stack = [self._root(adapter)]
        while stack:
            parent = stack.pop()
            if parent.stop + LEAST_PIECE_TOKENS > most:
                continue
            for piece in parent.children.get(_key(tokens, parent.stop), ()):
                matched = common_length(piece.tokens, tokens, piece.start, most)
                yield piece, matched
                if matched == len(piece.tokens):
                    stack.append(piece)

    def _remove(self, piece: StoredPiece) -> None:
        assert piece.parent is not None
        assert piece.saved is not None
        assert not piece.children, "a piece is more recent than its parent"
        key = _key(piece.tokens, 0)
        twins = piece.parent.children[key]
        twins.remove(piece)
        if not twins:
            del piece.parent.children[key]
        del self._pieces[piece]
        self.bytes -= piece.saved.size_bytes
        self.tokens -= len(piece.tokens)

    def check_invariants(self) -> None:
        """Counts are right, within the limit, and no piece outlives its parent. Raises AssertionError."""
        assert self.bytes == sum(piece.saved.size_bytes for piece in self._pieces if piece.saved), (
            "bytes are miscounted"
        )
        assert self.tokens == sum(len(piece.tokens) for piece in self._pieces), "tokens are miscounted"
        assert self.bytes <= self._limit_bytes, "more is stored than may be"
        seen: set[StoredPiece] = set()
        for piece in reversed(self._pieces):  # most recent first
            assert piece.parent is not None
            assert piece.parent in seen or piece.parent.parent is None, "a piece is more recent than its parent"
            assert piece in piece.parent.children[_key(piece.tokens, 0)], "a piece that cannot be found"
            assert piece.start == piece.parent.stop, "positions have a gap"
            seen.add(piece)


def _key(tokens: list[int], start: int) -> tuple[int, ...]:
    return tuple(tokens[start : start + LEAST_PIECE_TOKENS])
