"""Adds the demands of one subschema to a clause."""

from dataclasses import replace

from agent.constraint.json_schema.clause import (
    Arrays,
    Clause,
    Numbers,
    Objects,
    Rule,
    Strings,
    common_multiple,
    settled,
)
from agent.constraint.json_schema.keywords import ANYTHING, Bound, Conjunction, Keywords, conjoin
from agent.constraint.json_schema.reduction import Reduction
from agent.constraint.json_schema.values import NUMBERS, STRING, exact, key_of, type_of


def asserted(clause: Clause, keywords: Keywords, reduction: Reduction) -> Clause | None:
    """The clause with what `keywords` say of the value itself, without `also` and choices; None: no value has both."""
    types, booleans = clause.types & keywords.types, clause.booleans
    numbers, strings = _numbers(clause.numbers, keywords), _strings(clause.strings, keywords)
    for value in keywords.not_values:
        kind = type_of(value)
        if kind == STRING:
            strings = replace(strings, excluded=strings.excluded | {value})
        elif kind in NUMBERS:
            numbers = replace(numbers, excluded=numbers.excluded | {exact(value)})
        elif isinstance(value, bool):
            booleans -= {value}
        else:
            types -= {kind}
    values = clause.values
    if keywords.values is not None:
        kept = {key_of(value) for value in keywords.values} if values is not None else set()
        values = keywords.values if values is None else tuple(value for value in values if key_of(value) in kept)
    return settled(
        replace(
            clause,
            types=types,
            values=values,
            booleans=booleans,
            numbers=numbers,
            strings=strings,
            arrays=_arrays(clause.arrays, keywords, reduction),
            objects=_objects(clause.objects, keywords, reduction),
        )
    )


def _numbers(numbers: Numbers, keywords: Keywords) -> Numbers:
    if not (keywords.low or keywords.high or keywords.multiple or keywords.not_multiple):
        return numbers
    lows = [bound for bound in (numbers.low, keywords.low) if bound is not None]
    highs = [bound for bound in (numbers.high, keywords.high) if bound is not None]
    never = numbers.not_multiples
    return replace(
        numbers,
        low=max(lows, key=lambda bound: (bound.value, bound.exclusive), default=None),
        high=min(highs, key=_high_order, default=None),
        multiple=common_multiple(numbers.multiple, keywords.multiple),
        not_multiples=never if keywords.not_multiple is None else never | {keywords.not_multiple},
    )


def _high_order(bound: Bound) -> tuple[object, bool]:
    return bound.value, not bound.exclusive


def smaller(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return one if other is None else other
    return min(one, other)


def _strings(strings: Strings, keywords: Keywords) -> Strings:
    if not (keywords.min_length or keywords.max_length is not None or keywords.patterns or keywords.not_patterns):
        return strings
    return replace(
        strings,
        min_length=max(strings.min_length, keywords.min_length),
        max_length=smaller(strings.max_length, keywords.max_length),
        patterns=tuple(dict.fromkeys((*strings.patterns, *keywords.patterns))),
        not_patterns=tuple(dict.fromkeys((*strings.not_patterns, *keywords.not_patterns))),
    )


def _speaks_of_arrays(keywords: Keywords) -> bool:
    return bool(
        keywords.prefix or keywords.rest or keywords.min_items or keywords.max_items is not None or keywords.contains
        or keywords.some_item or keywords.unique or keywords.not_unique
    )  # fmt: skip


def _speaks_of_objects(keywords: Keywords) -> bool:
    return bool(
        keywords.names or keywords.name_patterns or keywords.other_names or keywords.required
        or keywords.min_properties or keywords.max_properties is not None or keywords.property_names
        or keywords.some_property or keywords.some_name is not None
    )  # fmt: skip


def _arrays(arrays: Arrays, keywords: Keywords, reduction: Reduction) -> Arrays:
    if not _speaks_of_arrays(keywords):
        return arrays
    length = max(len(arrays.prefix), len(keywords.prefix))
    other = Arrays(keywords.prefix, keywords.rest)
    return Arrays(
        prefix=tuple(reduction.reduced(conjoin(arrays.at(index), other.at(index))) for index in range(length)),
        rest=reduction.reduced(conjoin(arrays.rest, keywords.rest)),
        least=max(arrays.least, keywords.min_items),
        most=smaller(arrays.most, keywords.max_items),
        contains=arrays.contains + ((keywords.contains,) if keywords.contains else ()),
        some=arrays.some + ((keywords.some_item,) if keywords.some_item else ()),
        unique=arrays.unique or keywords.unique,
        not_unique=arrays.not_unique or keywords.not_unique,
    )


def _objects(objects: Objects, keywords: Keywords, reduction: Reduction) -> Objects:
    if not _speaks_of_objects(keywords):
        return objects
    rule = Rule(keywords.name_patterns, keywords.other_names)
    names: dict[str, Conjunction] = {}
    for name in dict.fromkeys((*objects.names, *keywords.names, *keywords.required)):
        before = [objects.names[name]] if name in objects.names else _by_rules(objects.rules, name)
        now = _of_listed(rule, keywords, name)
        names[name] = reduction.reduced(conjoin(*before, *now))
    rules = objects.rules if not rule.patterns and rule.others == ANYTHING else (*objects.rules, rule)
    return Objects(
        names=names,
        rules=tuple(dict.fromkeys(rules)),
        required=tuple(dict.fromkeys((*objects.required, *keywords.required))),
        least=max(objects.least, keywords.min_properties),
        most=smaller(objects.most, keywords.max_properties),
        name=conjoin(objects.name, keywords.property_names),
        some=objects.some + ((keywords.some_property,) if keywords.some_property else ()),
        some_names=objects.some_names + ((keywords.some_name,) if keywords.some_name is not None else ()),
    )


def _by_rules(rules: tuple[Rule, ...], name: str) -> list[Conjunction]:
    return [value for rule in rules for value in rule.of(name)]


def _of_listed(rule: Rule, keywords: Keywords, name: str) -> list[Conjunction]:
    """2020-12 core, section 10.3.2: `properties` and every matching pattern apply; additionalProperties to the rest."""
    if name not in keywords.names:
        return rule.of(name)
    return [keywords.names[name], *(value for pattern, value in rule.patterns if pattern.matches(name))]
