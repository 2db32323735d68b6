"""Masks of a constraint that is one regular tree, kept by where the text stands in it: a look-up instead of a search.

llguidance looks at each token of the vocabulary that could go on with a bounded word: 0.3 to 0.5 ms for 262,144. But
where a text stands (see lark.counting) says all that its mask depends on, and places come again, in the next entry of
a list and in the next request. Only pass numbers differ for ever, so they are cut to what the longest token can see.
"""

import threading
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass

from agent.constraint.lark.counting import Counting, Place
from agent.constraint.token_mask import Bits

MOST_BYTES = 8 << 20
"""Of one constraint's masks: 256 for 262,144 tokens."""
MOST_CHARACTERS = 4096
"""Whose minterms are remembered."""
MOST_PLACES = 4
"""At a time, in an ambiguous tree. Over it the text is no longer followed."""
MOST_FOLLOWED = 256
"""Characters at once: a character takes up to 50 us."""
MOST_BYTES_TOGETHER = 64 << 20
"""Of the masks of all constraints."""


class MaskRoom:
    """Memory that the kept masks of all constraints of a vocabulary share. Usable from any thread."""

    def __init__(self, most_bytes: int = MOST_BYTES_TOGETHER) -> None:
        self._free_bytes = most_bytes
        self._lock = threading.Lock()

    def take(self, size_bytes: int) -> bool:
        """False, and nothing is taken: there is not so much left."""
        with self._lock:
            if size_bytes > self._free_bytes:
                return False
            self._free_bytes -= size_bytes
            return True

    def give_back(self, size_bytes: int) -> None:
        with self._lock:
            self._free_bytes += size_bytes


@dataclass(frozen=True, slots=True)
class Where:
    """Where a text stands: its places (None: before its first character), and the bytes of a character that is not
    whole yet."""

    places: frozenset[Place] | None = None
    rest: bytes = b""


class KeptMasks:
    """Of one compiled form. Used by one thread at a time."""

    def __init__(
        self, counting: Counting, longest_token: int, room: MaskRoom | None = None, most_bytes: int = MOST_BYTES
    ) -> None:
        """`longest_token` of the vocabulary, in bytes: no token has more characters. `room`: shared with others."""
        self._room = room or MaskRoom()
        self._counting = counting
        self._longest_token = longest_token
        self._most_bytes = most_bytes
        self._minterms: dict[str, int] = {}
        self._masks: OrderedDict[Hashable, Bits] = OrderedDict()
        self.size_bytes = 0

    def __repr__(self) -> str:
        return f"<KeptMasks {len(self._masks)} of {self.size_bytes} bytes>"

    def after(self, where: Where, token: bytes) -> Where | None:
        """Where the text stands with this token, which may follow. None: that is no longer followed."""
        data = where.rest + token
        try:
            text, rest = data.decode(), b""
        except UnicodeDecodeError as error:
            if error.reason != "unexpected end of data":
                return None
            text, rest = data[: error.start].decode(), data[error.start :]
        places = where.places
        if len(text) > MOST_FOLLOWED:
            return None
        for character in text:
            places = self._step(places, character)
            if not 0 < len(places) <= MOST_PLACES:
                return None
        return Where(places, rest)

    def find(self, where: Where) -> Bits | None:
        """The mask that was made where a text stood so; it is not to be changed."""
        key = self._key(where)
        found = self._masks.get(key)
        if found is not None:
            self._masks.move_to_end(key)
        return found

    def keep(self, where: Where, bits: Bits) -> None:
        """A copy, for as long as there is room."""
        key = self._key(where)
        if key in self._masks or bits.nbytes > self._most_bytes:
            return
        while self.size_bytes + bits.nbytes > self._most_bytes or not self._room.take(bits.nbytes):
            if not self._masks:
                return
            self._drop_oldest()
        self._masks[key] = bits.copy()
        self.size_bytes += bits.nbytes

    def _drop_oldest(self) -> None:
        _, dropped = self._masks.popitem(last=False)
        self.size_bytes -= dropped.nbytes
        self._room.give_back(dropped.nbytes)

    def __del__(self) -> None:
        self._room.give_back(self.size_bytes)

    def _step(self, places: frozenset[Place] | None, character: str) -> frozenset[Place]:
        minterm = self._minterms.get(character)
        if minterm is None:
            if len(self._minterms) >= MOST_CHARACTERS:
                self._minterms.clear()
            minterm = self._minterms[character] = self._counting.alphabet.minterm_of(character)
        if places is None:
            return frozenset(self._counting.begin(minterm))
        return frozenset(target for place in places for target in self._counting.after(place, minterm))

    def _key(self, where: Where) -> Hashable:
        """The same for texts that stand so that no token can tell them apart."""
        if where.places is None:
            return where.rest
        seen = {self._counting.within(place, self._longest_token) for place in where.places}
        return frozenset(seen), where.rest, any(map(self._counting.may_end, where.places))
