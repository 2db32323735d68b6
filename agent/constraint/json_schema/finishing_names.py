"""Members that are not listed: which names they may have, and what the patterns of their names demand of them."""

from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING

from agent.constraint.errors import SchemaError
from agent.constraint.json_schema.clause import Objects, Rule
from agent.constraint.json_schema.keywords import ANYTHING, IMPOSSIBLE, Conjunction, conjoin
from agent.constraint.json_schema.limits import WORK_OF_TEXT_SET
from agent.constraint.json_schema.patterns import Pattern
from agent.constraint.json_schema.text_sets import TextSet
from agent.constraint.json_schema.values import STRING
from agent.constraint.json_schema.writing_texts import text_node
from agent.constraint.lark.automaton import TooManyStates
from agent.constraint.tree import Choice

if TYPE_CHECKING:
    from agent.constraint.json_schema.expansion import Expansion

MAX_OVERLAPPING_PATTERNS = 6


class NameFinishing:
    def __init__(self, expansion: "Expansion") -> None:
        self._expansion = expansion
        self._disjoint: dict[tuple[Pattern, Pattern], bool] = {}

    def with_names_checked(self, objects: Objects, path: str) -> Objects:
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
                    names[value] = self.of_unlisted(objects, value)
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

    def of_unlisted(self, objects: Objects, name: str) -> Conjunction:
        demands = [value for rule in objects.rules for value in rule.of(name)]
        return self._expansion.reduction.reduced(conjoin(*demands))

    def merged(self, objects: Objects, path: str) -> Objects:
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
        try:
            return all(self._is_disjoint_pair(one, other, path) for one, other in combinations(patterns, 2))
        except TooManyStates:
            raise SchemaError("the patterns of names are too large to compare; simplify them", path) from None

    def _is_disjoint_pair(self, one: Pattern, other: Pattern, path: str) -> bool:
        if (one, other) not in self._disjoint:
            self._expansion.subschemas.work.take(WORK_OF_TEXT_SET, path)
            self._disjoint[one, other] = TextSet((one.node, other.node), ()).is_empty()
        return self._disjoint[one, other]

    def _cells(self, patterns: list[Pattern], path: str) -> list[tuple[Pattern, tuple[Pattern, ...]]]:
        """The names cut by which of the patterns they match."""
        if len(patterns) > MAX_OVERLAPPING_PATTERNS:
            raise SchemaError(f"more than {MAX_OVERLAPPING_PATTERNS} patterns that overlap cannot be enforced", path)
        cells = []
        for size in range(len(patterns), 0, -1):
            for inside in combinations(patterns, size):
                self._expansion.subschemas.work.take(2 * WORK_OF_TEXT_SET, path)
                outside = [pattern.node for pattern in patterns if pattern not in inside]
                try:
                    names = TextSet((pattern.node for pattern in inside), outside)
                    if names.is_empty():
                        continue
                    cells.append((Pattern(f"cell {inside} {patterns}", names.node()), inside))
                except TooManyStates:
                    raise SchemaError("patterns that overlap are too large to separate; simplify them", path) from None
        return cells


def _either(patterns: list[Pattern]) -> Pattern:
    if len(patterns) == 1:
        return patterns[0]
    return Pattern(f"any of {[pattern.text for pattern in patterns]}", Choice(tuple(one.node for one in patterns)))


def is_closed(objects: Objects) -> bool:
    """Whether only listed members may be there."""
    return any(
        rule.others == IMPOSSIBLE and all(value == IMPOSSIBLE for _, value in rule.patterns) for rule in objects.rules
    )
