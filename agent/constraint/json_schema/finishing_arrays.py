"""What the library cannot say of arrays: that some item is like this, how many are, and that no two are equal."""

from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

from agent.constraint.errors import SchemaError
from agent.constraint.json_schema.assertion import smaller
from agent.constraint.json_schema.clause import Arrays
from agent.constraint.json_schema.keywords import ANYTHING, IMPOSSIBLE, Conjunction, Contains, SomeItem, conjoin
from agent.constraint.json_schema.limits import MAX_PERMUTATIONS, MAX_PLACES
from agent.constraint.json_schema.values import key_of

if TYPE_CHECKING:
    from agent.constraint.json_schema.expansion import Expansion

MAX_PAIRS_LOOKED_AT = 8


class ArrayFinishing:
    def __init__(self, expansion: "Expansion") -> None:
        self._expansion = expansion

    def further(self, arrays: Arrays, path: str) -> list[Arrays | tuple[Any, ...]] | None:
        """Alternatives with one difficulty less; None: there is none left. Raises SchemaError."""
        if arrays.contains:
            return list(self._without_contains(arrays, path))
        if arrays.some:
            return list(self._without_some(arrays, path))
        if arrays.not_unique:
            if arrays.most is not None and arrays.most <= 1:
                return []
            raise SchemaError("not uniqueItems cannot be enforced; remove it", path)
        return self._without_unique(arrays, path) if arrays.unique else None

    # Contains

    def _without_contains(self, arrays: Arrays, path: str) -> list[Arrays]:
        first, rest = arrays.contains[0], replace(arrays, contains=arrays.contains[1:])
        if first.least == 1 and first.most is None:
            return [replace(rest, some=(*rest.some, SomeItem(0, first.items, path)))]
        if first.least == 0 and first.most is None:
            return [rest]
        counted = self._all_or_none(arrays, first)
        if counted is None:
            raise SchemaError(
                "how many items contains counts cannot be enforced here; minContains 1 without maxContains can", path
            )
        if counted:
            most = smaller(rest.most, first.most)
            return [replace(rest, least=max(rest.least, first.least), most=most)]
        return [rest] if first.least == 0 else []

    def _all_or_none(self, arrays: Arrays, contains: Contains) -> bool | None:
        """Whether all items of every array are counted (True) or none (False); None: it depends."""
        items = {*arrays.prefix}
        if arrays.most is None or arrays.most > len(arrays.prefix):
            items.add(arrays.rest)
        if all(self._implies(item, contains.items) for item in items):
            return True
        if all(self._excludes(item, contains.items) for item in items):
            return False
        return None

    def _implies(self, one: Conjunction, other: Conjunction) -> bool:
        negated = self._expansion.subschemas.negated(other)
        return self._expansion.comparison.is_empty(conjoin(one, negated))

    def _excludes(self, one: Conjunction, other: Conjunction) -> bool:
        return self._expansion.comparison.is_empty(conjoin(one, other))

    # Some item

    def _without_some(self, arrays: Arrays, path: str) -> list[Arrays]:
        some, others = arrays.some[0], replace(arrays, some=arrays.some[1:])
        if some.items == IMPOSSIBLE:
            return []
        if some.items == ANYTHING:
            return [replace(others, least=max(others.least, some.start + 1))]
        end = max(len(arrays.prefix), some.start)
        if arrays.most is not None and arrays.most <= MAX_PLACES:
            end = arrays.most
        found = []
        for index in range(some.start, end):
            item = self._expansion.reduction.reduced(conjoin(arrays.at(index), some.items))
            if item == IMPOSSIBLE or self._excludes(arrays.at(index), some.items):
                continue
            if self._implies(arrays.at(index), some.items):
                found.append(replace(others, least=max(others.least, index + 1)))
                if others.least >= index + 1:
                    return [others]
                continue
            prefix = [arrays.at(place) for place in range(max(len(arrays.prefix), index + 1))]
            prefix[index] = item
            found.append(replace(others, prefix=tuple(prefix), least=max(others.least, index + 1)))
        if arrays.most is not None and arrays.most <= end:
            return found
        if self._implies(arrays.rest, some.items):
            return [*found, replace(others, least=max(others.least, end + 1))]
        if not self._excludes(arrays.rest, some.items):
            raise SchemaError(
                f"that at least one item is like this can be enforced with maxItems up to {MAX_PLACES}; add it",
                some.path,
            )
        return found

    # Unique

    def _without_unique(self, arrays: Arrays, path: str) -> list[Arrays | tuple[Any, ...]]:
        plain = replace(arrays, unique=False)
        if arrays.most is not None and arrays.most <= 1:
            return [plain]
        if arrays.most is not None and arrays.most <= MAX_PAIRS_LOOKED_AT:
            items = [arrays.at(index) for index in range(arrays.most)]
            if all(self._excludes(one, other) for one, other in combinations(items, 2)):
                return [plain]
        listed = self._distinct(arrays)
        if listed is None:
            raise SchemaError(
                "uniqueItems can be enforced for items of a small enum or with maxItems 1; "
                "remove it and check the answer yourself",
                path,
            )
        return [tuple(listed)]

    def _distinct(self, arrays: Arrays) -> list[list[Any]] | None:
        """All arrays without equal items, where they are few."""
        places: list[tuple[Any, ...]] = []
        limit = len(arrays.prefix) + 16 if arrays.most is None else min(arrays.most, len(arrays.prefix) + 16)
        for index in range(limit):
            values = self._expansion.reduction.values(self._expansion.reduction.reduced(arrays.at(index)))
            if values is None:
                return None
            places.append(values)
        found: list[list[Any]] = []
        waiting: list[list[Any]] = [[]]
        while waiting:
            items = waiting.pop()
            if len(items) >= arrays.least:
                found.append(items)
            if len(found) + len(waiting) > MAX_PERMUTATIONS:
                return None
            if len(items) < len(places):
                taken = {key_of(item) for item in items}
                waiting.extend([*items, value] for value in reversed(places[len(items)]) if key_of(value) not in taken)
            elif arrays.most is None or len(items) < arrays.most:
                return None
        return found
