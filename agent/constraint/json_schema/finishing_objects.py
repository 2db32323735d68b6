"""What the library cannot say of objects: of names, of how many members there are, that some member is like this."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING

from agent.constraint.errors import SchemaError
from agent.constraint.json_schema.clause import Objects
from agent.constraint.json_schema.finishing_names import NameFinishing, is_closed
from agent.constraint.json_schema.keywords import ANYTHING, IMPOSSIBLE, Conjunction, SomeProperty, conjoin
from agent.constraint.json_schema.limits import MAX_SUBSETS

if TYPE_CHECKING:
    from agent.constraint.json_schema.expansion import Expansion


class ObjectFinishing:
    def __init__(self, expansion: "Expansion") -> None:
        self._expansion = expansion
        self._names = NameFinishing(expansion)

    def further(self, objects: Objects, path: str) -> list[Objects] | None:
        """Alternatives with one difficulty less; None: there is none left. Raises SchemaError."""
        if objects.name != ANYTHING:
            return [self._names.with_names_checked(objects, path)]
        if len(objects.rules) > 1 or any(len(rule.patterns) > 1 for rule in objects.rules):
            merged = self._names.merged(objects, path)
            if merged != objects:
                return [merged]
        if objects.some_names:
            return self._without_some_names(objects, path)
        if objects.some:
            return self._without_some(objects, path)
        if objects.least or objects.most is not None:
            return self._counted(objects, path)
        return None

    def _without_some_names(self, objects: Objects, path: str) -> list[Objects]:
        first, rest = objects.some_names[0], replace(objects, some_names=objects.some_names[1:])
        if not is_closed(objects):
            raise SchemaError("not propertyNames can be enforced with additionalProperties false; add it", path)
        holds = self._expansion.evaluation.holds
        return self._one_required(rest, [name for name in objects.names if holds(first, name)], ANYTHING)

    # Some member

    def _without_some(self, objects: Objects, path: str) -> list[Objects]:
        some, rest = objects.some[0], replace(objects, some=objects.some[1:])
        value, expansion = some.value, self._expansion
        if value == IMPOSSIBLE:
            return []
        if some.matching is None and not some.patterns:
            missing = [name for name in some.names if name not in objects.names]
            if missing and not is_closed(objects):
                listed = {name: self._names.of_unlisted(objects, name) for name in missing}
                return [replace(objects, names={**objects.names, **listed})]
        found = self._one_required(rest, [name for name in objects.names if _is_meant(some, name)], value)
        if rest in found:
            return [rest]
        if is_closed(objects):
            return found
        demands = [rule.others for rule in objects.rules] + [v for rule in objects.rules for _, v in rule.patterns]
        if all(expansion.comparison.is_empty(conjoin(demand, value)) for demand in demands or [ANYTHING]):
            return found
        negated = expansion.subschemas.negated(value)
        is_plain = some.matching is None and not some.patterns
        if not is_plain or not all(
            expansion.comparison.is_empty(conjoin(demand, negated)) for demand in demands or [ANYTHING]
        ):
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


def optional_names(objects: Objects) -> list[str]:
    required = set(objects.required)
    return [name for name, value in objects.names.items() if value != IMPOSSIBLE and name not in required]


def _is_meant(some: SomeProperty, name: str) -> bool:
    return (
        name not in some.names
        and not any(pattern.matches(name) for pattern in some.patterns)
        and (some.matching is None or some.matching.matches(name))
    )
