"""Turns a conjunction of subschemas into clauses: the ways to satisfy it, each without a choice left."""

from collections import Counter
from dataclasses import dataclass, replace

from agent.constraint.errors import SchemaError
from agent.constraint.json_schema.assertion import asserted
from agent.constraint.json_schema.clause import Clause
from agent.constraint.json_schema.comparison import Comparison, Fork
from agent.constraint.json_schema.evaluation import Evaluation
from agent.constraint.json_schema.finishing import Finishing
from agent.constraint.json_schema.keywords import IMPOSSIBLE, Conjunction, Keywords
from agent.constraint.json_schema.limits import MAX_CLAUSES_PER_STATE
from agent.constraint.json_schema.negation import Negation
from agent.constraint.json_schema.reduction import Reduction
from agent.constraint.json_schema.subschemas import Subschemas
from agent.constraint.json_schema.values import OBJECT

MANY_FORKS = 3
MAX_SPLIT = 64


@dataclass(frozen=True, slots=True)
class _Way:
    """A way not finished: what it demands so far, the literals already in it, and the choices still to make."""

    clause: Clause
    seen: frozenset[int]
    forks: tuple[Fork, ...]


class Expansion:
    """Remembers what it expanded. Raises SchemaError for what cannot be written out."""

    def __init__(self, subschemas: Subschemas) -> None:
        self.subschemas = subschemas
        self.evaluation = Evaluation(subschemas)
        self.reduction = Reduction(subschemas, self.evaluation)
        self.comparison = Comparison(self)
        self._negation = Negation(subschemas)
        self.finishing = Finishing(self)
        self._clauses: dict[Conjunction, tuple[Clause, ...]] = {}

    def path(self, conjunction: Conjunction) -> str:
        return self.subschemas.path(abs(conjunction[0])) if conjunction else "#"

    # Clauses

    def clauses(self, conjunction: Conjunction) -> tuple[Clause, ...]:
        """A value satisfies the conjunction exactly when it satisfies one of the clauses."""
        conjunction = self.reduction.reduced(conjunction)
        if conjunction not in self._clauses:
            self._clauses[conjunction] = tuple(self._expand(conjunction))
        return self._clauses[conjunction]

    def _expand(self, conjunction: Conjunction) -> list[Clause]:
        path = self.path(conjunction)
        values = self.reduction.values(conjunction)
        if values is not None:
            return [Clause(path, types=self.reduction.all_types(conjunction), values=values)] if values else []
        found: dict[int, Clause] = {}
        first = self._advanced(_Way(Clause(path), frozenset(), ()), conjunction)
        waiting = [first] if first is not None else []
        while waiting:
            if len(waiting) + len(found) > MAX_CLAUSES_PER_STATE:
                raise SchemaError("the schema's alternatives multiply to too many; simplify it", path)
            way = waiting.pop()
            if way.forks:
                waiting.extend(reversed(self._forked(way)))
                continue
            clause = self._filtered(way)
            further = self.finishing.further(clause)
            if further is None:
                if clause not in found.values():
                    found[len(found)] = clause
            else:
                waiting.extend(replace(way, clause=clause) for clause in reversed(further))
        return list(found.values())

    def _filtered(self, way: _Way) -> Clause:
        if way.clause.values is None or way.clause.has_exact_values:
            return way.clause
        conjunction = tuple(way.seen)
        kept = tuple(value for value in way.clause.values if self.evaluation.holds(conjunction, value))
        return replace(way.clause, values=kept, has_exact_values=True)

    def _advanced(self, way: _Way, conjunction: Conjunction) -> _Way | None:
        """The way with all literals of the conjunction and those that follow from them; None: it is none."""
        clause, seen, forks = way.clause, set(way.seen), list(way.forks)
        waiting = list(reversed(conjunction))
        while waiting:
            literal = waiting.pop()
            if literal in seen:
                continue
            if -literal in seen:
                return None
            seen.add(literal)
            self.subschemas.work.take(20 + len(clause.objects.names), clause.path)
            if literal < 0:
                forks.append(self._negation.alternatives(-literal))
                continue
            keywords = self.subschemas.keywords(literal)
            found = asserted(clause, keywords, self.reduction)
            if found is None:
                return None
            clause = found
            waiting.extend(reversed(keywords.also))
            forks.extend(keywords.choices)
            forks.extend(self.comparison.separated(group) for group in keywords.exclusive)
        return _Way(clause, frozenset(seen), tuple(forks))

    def _forked(self, way: _Way) -> list[_Way]:
        """Makes one choice: the ways that are left after it."""
        if len(way.forks) >= MANY_FORKS:
            split = self._split(way)
            if split is not None:
                return split
        at = min(range(len(way.forks)), key=lambda index: len(way.forks[index]))
        fork, others = way.forks[at], (*way.forks[:at], *way.forks[at + 1 :])
        before = replace(way, forks=others)
        ways: list[_Way] = []
        for option in fork:
            after = self._advanced(before, option)
            if after is None:
                continue
            if after.clause == before.clause and after.forks == before.forks:
                return [after]  # this option holds anyway, so there is nothing to choose
            ways.append(after)
        if len(ways) == 2 and self._is_absence(fork[0]):
            # A name is absent, or it is there: disjoint, so that the text is read in one way only.
            present = self._advanced(ways[1], self.subschemas.negated(fork[0]))
            ways[1:] = [present] if present is not None else []
        return ways

    def _is_absence(self, option: Conjunction) -> bool:
        if len(option) != 1 or option[0] < 0 or self.reduction.said(option[0]) != {"names"}:
            return False
        return list(self.subschemas.keywords(option[0]).names.values()) == [IMPOSSIBLE]

    def _split(self, way: _Way) -> list[_Way] | None:
        """Splits on a member of few values of which many choices speak, such as a "type": then these are no choices."""
        if way.clause.types != {OBJECT}:
            return None
        names = way.clause.objects.names
        mentioned = Counter(
            name
            for fork in way.forks
            for name in {
                name
                for option in fork
                for literal in option
                for name in self.subschemas.keywords(abs(literal)).names
                if name in names
            }
        )
        for name, count in mentioned.most_common(4):
            values = self.reduction.values(names[name])
            if count < MANY_FORKS or values is None or not 2 <= len(values) <= MAX_SPLIT:
                continue
            ways = []
            for value in values:
                single = self.subschemas.made(Keywords(way.clause.path, values=(value,)))
                only = Keywords(way.clause.path, names={name: single}, required=(name,))
                ways.append(self._advanced(way, self.subschemas.made(only)))
            absent = self.subschemas.made(Keywords(way.clause.path, names={name: IMPOSSIBLE}))
            ways.append(self._advanced(way, absent))
            return [found for found in ways if found is not None]
        return None
