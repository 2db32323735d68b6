"""Whether one given JSON value satisfies a conjunction: exact, and how enums and names are decided."""

from collections.abc import Hashable
from typing import Any

from agent.constraint.errors import SchemaError
from agent.constraint.json_schema.keywords import Conjunction, Keywords
from agent.constraint.json_schema.subschemas import Subschemas
from agent.constraint.json_schema.values import ARRAY, BOOLEAN, NUMBERS, OBJECT, STRING, exact, key_of, type_of


class Evaluation:
    """Evaluates subschemas on values. Raises SchemaError when that costs more than the preparation may."""

    def __init__(self, subschemas: Subschemas) -> None:
        self._subschemas = subschemas
        self._keys: dict[int, tuple[frozenset[Hashable] | None, frozenset[Hashable]]] = {}

    def holds(self, conjunction: Conjunction, value: Any) -> bool:
        return all(self._literal_holds(literal, value) for literal in conjunction)

    def _literal_holds(self, literal: int, value: Any) -> bool:
        keywords = self._subschemas.keywords(abs(literal))
        self._subschemas.work.take(1, keywords.path)
        try:
            return (self._is_listed(abs(literal), keywords, value) and self._keywords_hold(keywords, value)) == (
                literal > 0
            )
        except RecursionError:
            raise SchemaError("the schema nests too deep; give its parts less depth", keywords.path) from None

    def _keywords_hold(self, keywords: Keywords, value: Any) -> bool:
        kind = type_of(value)
        if kind not in keywords.types:
            return False
        if kind == STRING and not self._string_holds(keywords, value):
            return False
        if kind in NUMBERS and kind != BOOLEAN and not _number_holds(keywords, value):
            return False
        if kind == ARRAY and not self._array_holds(keywords, value):
            return False
        if kind == OBJECT and not self._object_holds(keywords, value):
            return False
        return (
            self.holds(keywords.also, value)
            and all(any(self.holds(option, value) for option in choice) for choice in keywords.choices)
            and all(sum(self.holds(option, value) for option in group) == 1 for group in keywords.exclusive)
        )

    def _is_listed(self, number: int, keywords: Keywords, value: Any) -> bool:
        """Whether the value is in the enum, if there is one."""
        if keywords.values is None and not keywords.not_values:
            return True
        if number not in self._keys:
            listed = None if keywords.values is None else frozenset(map(key_of, keywords.values))
            self._keys[number] = (listed, frozenset(map(key_of, keywords.not_values)))
        listed, never = self._keys[number]
        key = key_of(value)
        return (listed is None or key in listed) and key not in never

    def _string_holds(self, keywords: Keywords, value: str) -> bool:
        work = len(value) * (len(keywords.patterns) + len(keywords.not_patterns)) // 16
        self._subschemas.work.take(work, keywords.path)
        return (
            keywords.min_length <= len(value)
            and (keywords.max_length is None or len(value) <= keywords.max_length)
            and all(pattern.matches(value) for pattern in keywords.patterns)
            and not any(pattern.matches(value) for pattern in keywords.not_patterns)
        )

    def _array_holds(self, keywords: Keywords, value: list[Any]) -> bool:
        if not keywords.min_items <= len(value) or (keywords.max_items is not None and len(value) > keywords.max_items):
            return False
        start = len(keywords.prefix)
        if not all(map(self.holds, keywords.prefix, value)):
            return False
        if not all(self.holds(keywords.rest, item) for item in value[start:]):
            return False
        if keywords.unique or keywords.not_unique:
            is_unique = len({key_of(item) for item in value}) == len(value)
            if is_unique != keywords.unique:
                return False
        if keywords.contains is not None:
            count = sum(self.holds(keywords.contains.items, item) for item in value)
            most = keywords.contains.most
            if count < keywords.contains.least or (most is not None and count > most):
                return False
        some = keywords.some_item
        return some is None or any(self.holds(some.items, item) for item in value[some.start :])

    def _object_holds(self, keywords: Keywords, value: dict[str, Any]) -> bool:
        size, most = len(value), keywords.max_properties
        if size < keywords.min_properties or (most is not None and size > most):
            return False
        if any(name not in value for name in keywords.required):
            return False
        if not all(self._member_holds(keywords, name, item) for name, item in value.items()):
            return False
        if not all(self.holds(keywords.property_names, name) for name in value):
            return False
        if keywords.some_name is not None and not any(self.holds(keywords.some_name, name) for name in value):
            return False
        some = keywords.some_property
        return some is None or any(
            name not in some.names
            and not any(pattern.matches(name) for pattern in some.patterns)
            and (some.matching is None or some.matching.matches(name))
            and self.holds(some.value, item)
            for name, item in value.items()
        )

    def _member_holds(self, keywords: Keywords, name: str, item: Any) -> bool:
        matching = [value for pattern, value in keywords.name_patterns if pattern.matches(name)]
        if name in keywords.names:
            matching.append(keywords.names[name])
        elif not matching:
            matching.append(keywords.other_names)
        return all(self.holds(value, item) for value in matching)


def _number_holds(keywords: Keywords, value: int | float) -> bool:
    number = exact(value)
    low, high = keywords.low, keywords.high
    if low is not None and (number < low.value or (low.exclusive and number == low.value)):
        return False
    if high is not None and (number > high.value or (high.exclusive and number == high.value)):
        return False
    if keywords.multiple is not None and (number / keywords.multiple).denominator != 1:
        return False
    return keywords.not_multiple is None or (number / keywords.not_multiple).denominator != 1
