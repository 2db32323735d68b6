"""The numbered subschemas of one document, the client's and those that the algebra makes."""

from collections.abc import Callable
from typing import Any

from agent.constraint.errors import SchemaError
from agent.constraint.json_schema.document import Document, Found
from agent.constraint.json_schema.keywords import ANYTHING, IMPOSSIBLE, NOTHING_IDENTITY, Conjunction, Keywords
from agent.constraint.json_schema.limits import MAX_REFERENCE_CHAIN, Work
from agent.constraint.json_schema.patterns import SignedPatterns, read_pattern

Reader = Callable[["Subschemas", dict[str, Any], str], Keywords]


class Subschemas:
    """Gives each subschema a number when it is first met, and reads it when it is first used.

    `work` is what the whole preparation may cost. Raises SchemaError.
    """

    def __init__(self, root: Any, reader: Reader) -> None:
        self.document = Document(root)
        self.work = Work()
        self._reader = reader
        # 0 is never used: a literal and its negation would be one.
        self._raw: list[Found | None] = [None, None]
        self._keywords: dict[int, Keywords] = {NOTHING_IDENTITY: Keywords("#", types=frozenset())}
        self._numbers: dict[int, int] = {}
        self._sound: set[int] = {NOTHING_IDENTITY}
        self._negated: dict[Conjunction, Conjunction] = {}
        self._patterns: dict[str, SignedPatterns] = {}
        self.root = self.of(root, "#")

    def of(self, value: Any, path: str) -> Conjunction:
        """The conjunction that a schema at `path` stands for."""
        if value is True or value == {}:
            return ANYTHING
        if value is False:
            return IMPOSSIBLE
        if not isinstance(value, dict):
            raise SchemaError("a schema is an object, true or false", path)
        # The document outlives us, so an object's id names a place in it; a $ref and the place it names are one.
        number = self._numbers.get(id(value))
        if number is None:
            number = self._numbers[id(value)] = len(self._raw)
            self._raw.append(Found(value, path))
        return (number,)

    def made(self, keywords: Keywords) -> Conjunction:
        """A subschema of our own."""
        self.work.take(5, keywords.path)
        self._raw.append(None)
        number = len(self._raw) - 1
        self._keywords[number] = keywords
        return (number,)

    def keywords(self, number: int) -> Keywords:
        if number not in self._sound:
            self._refuse_loops(number)
        return self._keywords[number]

    def _read(self, number: int) -> Keywords:
        found = self._keywords.get(number)
        if found is None:
            raw = self._raw[number]
            assert raw is not None
            self.work.take(10, raw.path)
            found = self._keywords[number] = self._reader(self, raw.value, raw.path)
        return found

    def _refuse_loops(self, number: int) -> None:
        """A subschema that refers to itself for the very same value says nothing (2020-12 core, section 9.4.1)."""
        way = [(number, iter(_in_place(self._read(number))))]
        on_way = {number}
        while way:
            current, others = way[-1]
            following = next(others, None)
            if following is None:
                way.pop()
                on_way.discard(current)
                self._sound.add(current)
            elif following in on_way:
                raise SchemaError(
                    "the schema refers to itself for the same value; that has no meaning", self.path(following)
                )
            elif following not in self._sound:
                if len(way) > MAX_REFERENCE_CHAIN:
                    raise SchemaError(
                        f"more than {MAX_REFERENCE_CHAIN} references follow on each other", self.path(number)
                    )
                way.append((following, iter(_in_place(self._read(following)))))
                on_way.add(following)

    def path(self, number: int) -> str:
        raw = self._raw[number]
        return raw.path if raw is not None else self._keywords[number].path

    def negated(self, conjunction: Conjunction) -> Conjunction:
        """Holds for exactly the values for which `conjunction` does not."""
        if conjunction == ANYTHING:
            return IMPOSSIBLE
        if conjunction == IMPOSSIBLE:
            return ANYTHING
        if len(conjunction) == 1:
            return (-conjunction[0],)
        if conjunction not in self._negated:
            path = self.path(abs(conjunction[0]))
            self._negated[conjunction] = self.made(Keywords(path, also=conjunction))
        return (-self._negated[conjunction][0],)

    def pattern(self, text: str, path: str) -> SignedPatterns:
        if text not in self._patterns:
            self._patterns[text] = read_pattern(text, path)
        return self._patterns[text]


def _in_place(keywords: Keywords) -> set[int]:
    """The subschemas that are asked about the same value."""
    options = (option for group in (*keywords.choices, *keywords.exclusive) for option in group)
    return {abs(literal) for conjunction in (keywords.also, *options) for literal in conjunction}
