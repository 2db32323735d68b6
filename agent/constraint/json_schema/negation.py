"""What it takes not to satisfy a subschema: at least one of its demands is not met (De Morgan, all the way down)."""

from itertools import combinations

from agent.constraint.errors import SchemaError
from agent.constraint.json_schema.keywords import (
    ANYTHING,
    IMPOSSIBLE,
    Bound,
    Conjunction,
    Keywords,
    SomeItem,
    SomeProperty,
    conjoin,
)
from agent.constraint.json_schema.subschemas import Subschemas
from agent.constraint.json_schema.values import ALL_TYPES, ARRAY, NUMBERS, OBJECT, STRING, type_of

_STRINGS, _ARRAYS, _OBJECTS = frozenset({STRING}), frozenset({ARRAY}), frozenset({OBJECT})


class Negation:
    """Remembers the alternatives of each subschema."""

    def __init__(self, subschemas: Subschemas) -> None:
        self._subschemas = subschemas
        self._alternatives: dict[int, tuple[Conjunction, ...]] = {}

    def alternatives(self, number: int) -> tuple[Conjunction, ...]:
        """A value fails subschema `number` exactly when it satisfies one of these. Raises SchemaError."""
        if number not in self._alternatives:
            keywords = self._subschemas.keywords(number)
            found = [*self._scalars(keywords), *self._arrays(keywords), *self._objects(keywords)]
            found.extend(self._logic(keywords))
            self._alternatives[number] = tuple(dict.fromkeys(found))
        return self._alternatives[number]

    def _made(self, keywords: Keywords) -> Conjunction:
        return self._subschemas.made(keywords)

    def _scalars(self, keywords: Keywords) -> list[Conjunction]:
        path, found = keywords.path, []
        if keywords.types != ALL_TYPES:
            found.append(self._made(Keywords(path, types=ALL_TYPES - keywords.types)))
        if keywords.values is not None:
            found.append(self._none_of(keywords))
        if keywords.not_values:
            found.append(self._made(Keywords(path, values=keywords.not_values)))
        if keywords.low is not None:
            high = Bound(keywords.low.value, not keywords.low.exclusive)
            found.append(self._made(Keywords(path, types=NUMBERS, high=high)))
        if keywords.high is not None:
            low = Bound(keywords.high.value, not keywords.high.exclusive)
            found.append(self._made(Keywords(path, types=NUMBERS, low=low)))
        for multiple, not_multiple in ((None, keywords.multiple), (keywords.not_multiple, None)):
            if multiple is not None or not_multiple is not None:
                found.append(self._made(Keywords(path, types=NUMBERS, multiple=multiple, not_multiple=not_multiple)))
        if keywords.min_length > 0:
            found.append(self._made(Keywords(path, types=_STRINGS, max_length=keywords.min_length - 1)))
        if keywords.max_length is not None:
            found.append(self._made(Keywords(path, types=_STRINGS, min_length=keywords.max_length + 1)))
        for pattern in keywords.patterns:
            if not pattern.exact:
                raise SchemaError(f"{pattern.text.rpartition(' ')[0]} cannot be negated", path)
            found.append(self._made(Keywords(path, types=_STRINGS, not_patterns=(pattern,))))
        found.extend(self._made(Keywords(path, types=_STRINGS, patterns=(p,))) for p in keywords.not_patterns)
        return found

    def _none_of(self, keywords: Keywords) -> Conjunction:
        """No value of the enum: scalars are excluded by themselves, arrays and objects by what they are made of."""
        values, path = keywords.values or (), keywords.path
        scalars = tuple(value for value in values if not isinstance(value, list | dict))
        literals = []
        for value in values:
            if type_of(value) == ARRAY:
                items = tuple(self._made(Keywords(path, values=(item,))) for item in value)
                same = Keywords(path, types=_ARRAYS, prefix=items, rest=IMPOSSIBLE, min_items=len(items))
                literals.append(-self._made(same)[0])
            elif type_of(value) == OBJECT:
                members = {name: self._made(Keywords(path, values=(item,))) for name, item in value.items()}
                same = Keywords(path, types=_OBJECTS, names=members, other_names=IMPOSSIBLE, required=tuple(members))
                literals.append(-self._made(same)[0])
        return self._made(Keywords(path, not_values=scalars, also=tuple(sorted(literals, key=abs))))

    def _arrays(self, keywords: Keywords) -> list[Conjunction]:
        path, found, negated = keywords.path, [], self._subschemas.negated
        for index, item in enumerate(keywords.prefix):
            if item != ANYTHING:
                prefix = (*(ANYTHING,) * index, negated(item))
                found.append(self._made(Keywords(path, types=_ARRAYS, prefix=prefix, min_items=index + 1)))
        if keywords.rest != ANYTHING:
            some = SomeItem(len(keywords.prefix), negated(keywords.rest), path)
            found.append(self._made(Keywords(path, types=_ARRAYS, some_item=some)))
        if keywords.min_items > 0:
            found.append(self._made(Keywords(path, types=_ARRAYS, max_items=keywords.min_items - 1)))
        if keywords.max_items is not None:
            found.append(self._made(Keywords(path, types=_ARRAYS, min_items=keywords.max_items + 1)))
        contains = keywords.contains
        if contains is not None:
            if contains.least > 0:
                found.append(self._made(Keywords(
                    path, types=_ARRAYS, contains=contains._replace(least=0, most=contains.least - 1))))  # fmt: skip
            if contains.most is not None:
                found.append(self._made(Keywords(
                    path, types=_ARRAYS, contains=contains._replace(least=contains.most + 1, most=None))))  # fmt: skip
        if keywords.unique or keywords.not_unique:
            made = Keywords(path, types=_ARRAYS, unique=keywords.not_unique, not_unique=keywords.unique)
            found.append(self._made(made))
        if keywords.some_item is not None:
            start, items, _ = keywords.some_item
            rest = Keywords(path, types=_ARRAYS, prefix=(ANYTHING,) * start, rest=negated(items))
            found.append(self._made(rest))
        return found

    def _objects(self, keywords: Keywords) -> list[Conjunction]:
        path, found, negated = keywords.path, [], self._subschemas.negated
        for name, value in keywords.names.items():
            if value != ANYTHING:
                found.append(self._made(Keywords(
                    path, types=_OBJECTS, names={name: negated(value)}, required=(name,))))  # fmt: skip
        some = []
        for pattern, value in keywords.name_patterns:
            if value != ANYTHING:
                some.append(SomeProperty(frozenset(), (), pattern, negated(value), path))
        if keywords.other_names != ANYTHING:
            patterns = tuple(pattern for pattern, _ in keywords.name_patterns)
            some.append(SomeProperty(frozenset(keywords.names), patterns, None, negated(keywords.other_names), path))
        found.extend(self._made(Keywords(path, types=_OBJECTS, some_property=one)) for one in some)
        for name in keywords.required:
            found.append(self._made(Keywords(path, types=_OBJECTS, names={name: IMPOSSIBLE})))
        if keywords.min_properties > 0:
            found.append(self._made(Keywords(path, types=_OBJECTS, max_properties=keywords.min_properties - 1)))
        if keywords.max_properties is not None:
            found.append(self._made(Keywords(path, types=_OBJECTS, min_properties=keywords.max_properties + 1)))
        if keywords.property_names != ANYTHING:
            some_name = negated(keywords.property_names)
            found.append(self._made(Keywords(path, types=_OBJECTS, some_name=some_name)))
        if keywords.some_property is not None or keywords.some_name is not None:
            raise SchemaError("this combination of not and additional members cannot be enforced", path)
        return found

    def _logic(self, keywords: Keywords) -> list[Conjunction]:
        negated = self._subschemas.negated
        found: list[Conjunction] = [(-literal,) for literal in keywords.also]
        for choice in keywords.choices:
            found.append(conjoin(*map(negated, choice)))
        for group in keywords.exclusive:
            found.append(conjoin(*map(negated, group)))
            found.extend(conjoin(one, other) for one, other in combinations(group, 2))
        return [conjunction for conjunction in found if conjunction != IMPOSSIBLE]
