"""What the library cannot say of objects: of names, of how many members there are, that some member is like this."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING

from agent.constraint.automaton import TooManyStates
from agent.constraint.errors import SchemaError
from agent.constraint.json_schema.clause import Objects, Rule
from agent.constraint.json_schema.keywords import ANYTHING, IMPOSSIBLE, Conjunction, SomeProperty, conjoin
from agent.constraint.json_schema.limits import MAX_SUBSETS
from agent.constraint.json_schema.patterns import Pattern
from agent.constraint.json_schema.text_sets import TextSet
from agent.constraint.json_schema.values import STRING
from agent.constraint.json_schema.writing_texts import text_node
from agent.constraint.tree import Choice

if TYPE_CHECKING:
    from agent.constraint.json_schema.expansion import Expansion

MAX_OVERLAPPING_PATTERNS = 6


class ObjectFinishing:
    def __init__(self, expansion: "Expansion") -> None:
        self._expansion = expansion

    def further(self, objects: Objects, path: str) -> list[Objects] | None:
        """Alternatives with one difficulty less; None: there is none left. Raises SchemaError."""
        if objects.name != ANYTHING:
            return [self._with_names_checked(objects, path)]
        if len(objects.rules) > 1 or any(len(rule.patterns) > 1 for rule in objects.rules):
            merged = self._merged(objects, path)
            if merged != objects:
                return [merged]
        if objects.some_names:
            return self._without_some_names(objects, path)
        if objects.some:
            return self._without_some(objects, path)
        if objects.least or objects.most is not None:
            return self._counted(objects, path)
        return None

    # Names

    def _with_names_checked(self, objects: Objects, path: str) -> Objects:
        name, expansion = objects.name, self._expansion
        names = {
            listed: value if expansion.evaluation.holds(name, listed) else IMPOSSIBLE
            for listed, value in objects.names.items()
        }
        plain = replace(objects, name=ANYTHING)
        values = expansion.reduction.values(name)
        if values is not None:
            for value in values:
                if isinstance(value, str) and value not in names:
                    names[value] = self._of_unlisted(objects, value)
            return replace(plain, names=names, rules=(Rule((), IMPOSSIBLE),))
        if is_closed(objects):
            return replace(plain, names=names)
        nodes = []
        for clause in expansion.clauses(name):
            if STRING in clause.types:
                if clause.values is not None:
                    raise SchemaError("propertyNames with alternatives of enums cannot be enforced", path)
                nodes.append(text_node(clause.strings, path))
        if not nodes:
            return replace(plain, names=names, rules=(Rule((), IMPOSSIBLE),))
        if any(node is None for node in nodes):
            return replace(plain, names=names)
        kept = [node for node in nodes if node is not None]
        pattern = Pattern(f"names {name}", kept[0] if len(kept) == 1 else Choice(tuple(kept)))
        return replace(plain, names=names, rules=(*objects.rules, Rule(((pattern, ANYTHING),), IMPOSSIBLE)))

    def _of_unlisted(self, objects: Objects, name: str) -> Conjunction:
        demands = [value for rule in objects.rules for value in rule.of(name)]
        return self._expansion.reduction.reduced(conjoin(*demands))

    def _without_some_names(self, objects: Objects, path: str) -> list[Objects]:
        first, rest = objects.some_names[0], replace(objects, some_names=objects.some_names[1:])
        if not is_closed(objects):
            raise SchemaError("not propertyNames can be enforced with additionalProperties false; add it", path)
        holds = self._expansion.evaluation.holds
        return self._one_required(rest, [name for name in objects.names if holds(first, name)], ANYTHING)

    # Rules for members that are not listed

    def _merged(self, objects: Objects, path: str) -> Objects:
        """One rule in place of all, its patterns disjoint."""
        patterns = list(dict.fromkeys(pattern for rule in objects.rules for pattern, _ in rule.patterns))
        others = self._expansion.reduction.reduced(conjoin(*(rule.others for rule in objects.rules)))
        cells: list[tuple[Pattern, tuple[Pattern, ...]]]
        if len(patterns) <= 1 or self._are_disjoint(patterns, path):
            cells = [(pattern, (pattern,)) for pattern in patterns]
        else:
            cells = self._cells(patterns, path)
        grouped: dict[Conjunction, list[Pattern]] = {}
        for pattern, inside in cells:
            demands = []
            for rule in objects.rules:
                own = [value for candidate, value in rule.patterns if candidate in inside]
                demands.extend(own or [rule.others])
            grouped.setdefault(self._expansion.reduction.reduced(conjoin(*demands)), []).append(pattern)
        # Names of which the same is demanded as of those that match nothing need no pattern.
        grouped.pop(others, None)
        found = tuple((_either(members), value) for value, members in grouped.items())
        return replace(objects, rules=(Rule(found, others),))

    def _are_disjoint(self, patterns: list[Pattern], path: str) -> bool:
        self._expansion.subschemas.work.take(len(patterns) ** 2 * 4, path)
        try:
            return all(TextSet((one.node, other.node), ()).is_empty() for one, other in combinations(patterns, 2))
        except TooManyStates:
            raise SchemaError(
                "the patterns of patternProperties are too large to compare; simplify them", path
            ) from None

    def _cells(self, patterns: list[Pattern], path: str) -> list[tuple[Pattern, tuple[Pattern, ...]]]:
        """The names cut by which of the patterns they match."""
        if len(patterns) > MAX_OVERLAPPING_PATTERNS:
            raise SchemaError(f"more than {MAX_OVERLAPPING_PATTERNS} patterns that overlap cannot be enforced", path)
        cells = []
        for size in range(len(patterns), 0, -1):
            for inside in combinations(patterns, size):
                outside = [pattern.node for pattern in patterns if pattern not in inside]
                try:
                    names = TextSet((pattern.node for pattern in inside), outside)
                    if names.is_empty():
                        continue
                    cells.append((Pattern(f"cell {inside} {patterns}", names.node()), inside))
                except TooManyStates:
                    raise SchemaError("patterns that overlap are too large to separate; simplify them", path) from None
        return cells

    # Some member

    def _without_some(self, objects: Objects, path: str) -> list[Objects]:
        some, rest = objects.some[0], replace(objects, some=objects.some[1:])
        value, expansion = some.value, self._expansion
        if value == IMPOSSIBLE:
            return []
        if some.matching is None and not some.patterns:
            missing = [name for name in some.names if name not in objects.names]
            if missing and not is_closed(objects):
                listed = {name: self._of_unlisted(objects, name) for name in missing}
                return [replace(objects, names={**objects.names, **listed})]
        found = self._one_required(rest, [name for name in objects.names if _is_meant(some, name)], value)
        if rest in found:
            return [rest]
        if is_closed(objects):
            return found
        demands = [rule.others for rule in objects.rules] + [v for rule in objects.rules for _, v in rule.patterns]
        if all(expansion.is_empty(conjoin(demand, value)) for demand in demands or [ANYTHING]):
            return found
        negated = expansion.subschemas.negated(value)
        is_plain = some.matching is None and not some.patterns
        if not is_plain or not all(expansion.is_empty(conjoin(demand, negated)) for demand in demands or [ANYTHING]):
            raise SchemaError("that some further member is like this cannot be enforced; list them", some.path)
        # Some member beside the listed ones, whatever it is: more members than are listed.
        return [*found, *self._subsets(rest, path, further=1)]

    def _one_required(self, objects: Objects, names: Iterable[str], value: Conjunction) -> list[Objects]:
        found = []
        for name in names:
            item = self._expansion.reduction.reduced(conjoin(objects.names[name], value))
            if item == IMPOSSIBLE:
                continue
            required = tuple(dict.fromkeys((*objects.required, name)))
            found.append(replace(objects, names={**objects.names, name: item}, required=required))
        return found

    # Counts

    def _subsets(self, objects: Objects, path: str, further: int) -> list[Objects]:
        """Each choice of the optional listed members, required or forbidden; `further` more members at least."""
        optional = optional_names(objects)
        if 2 ** min(len(optional), 30) > MAX_SUBSETS:
            raise SchemaError(
                "how many members there are can be enforced with fewer optional properties, or if all are required",
                path,
            )
        found = []
        for size in range(len(optional) + 1):
            for present in combinations(optional, size):
                absent = dict.fromkeys((name for name in optional if name not in present), IMPOSSIBLE)
                required = (*objects.required, *present)
                least = max(objects.least, len(required) + further if further else 0)
                found.append(replace(objects, names={**objects.names, **absent}, required=required, least=least))
        return found

    def _counted(self, objects: Objects, path: str) -> list[Objects] | None:
        count, optional = len(objects.required), optional_names(objects)
        if objects.least and objects.least <= count:
            return [replace(objects, least=0)]
        if is_closed(objects):
            return self._counted_closed(objects, path)
        if optional:
            return self._counted_open(objects, path)
        if objects.least > count + 1:
            raise SchemaError(
                "minProperties can be enforced up to one more than the required properties: "
                "members that are not listed could be one member written twice",
                path,
            )
        return None  # the library counts right where all listed members are required

    def _counted_open(self, objects: Objects, path: str) -> list[Objects]:
        count, optional = len(objects.required), optional_names(objects)
        if objects.most is None and objects.least == count + 1:
            # One more: either a listed one, or none of these and a further one.
            absent = dict.fromkeys(optional, IMPOSSIBLE)
            none = replace(objects, names={**objects.names, **absent})
            return [*self._one_required(replace(objects, least=0), optional, ANYTHING), none]
        return self._subsets(objects, path, further=0)

    def _counted_closed(self, objects: Objects, path: str) -> list[Objects]:
        count, optional = len(objects.required), optional_names(objects)
        if objects.least > count + len(optional):
            return []
        if objects.most is not None and objects.most >= count + len(optional):
            return [replace(objects, most=None)]
        found = []
        is_least = objects.least > 0
        size = objects.least - count if is_least else (objects.most or 0) - count
        for number, chosen in enumerate(combinations(optional, size)):
            if number >= MAX_SUBSETS:
                raise SchemaError(
                    "minProperties or maxProperties of so many optional properties cannot be enforced", path
                )
            if is_least:
                found.append(replace(objects, least=0, required=(*objects.required, *chosen)))
            else:
                absent = dict.fromkeys((name for name in optional if name not in chosen), IMPOSSIBLE)
                found.append(replace(objects, most=None, names={**objects.names, **absent}))
        return found


def _either(patterns: list[Pattern]) -> Pattern:
    if len(patterns) == 1:
        return patterns[0]
    return Pattern(f"any of {[pattern.text for pattern in patterns]}", Choice(tuple(one.node for one in patterns)))


def is_closed(objects: Objects) -> bool:
    """Whether only listed members may be there."""
    return any(
        rule.others == IMPOSSIBLE and all(value == IMPOSSIBLE for _, value in rule.patterns) for rule in objects.rules
    )


def optional_names(objects: Objects) -> list[str]:
    required = set(objects.required)
    return [name for name, value in objects.names.items() if value != IMPOSSIBLE and name not in required]


def _is_meant(some: SomeProperty, name: str) -> bool:
    return (
        name not in some.names
        and not any(pattern.matches(name) for pattern in some.patterns)
        and (some.matching is None or some.matching.matches(name))
    )
