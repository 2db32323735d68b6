"""Lays written subschemas out as one schema: what is used once stands in its place, what is used twice gets a name."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from agent.constraint.json_schema.keywords import Conjunction
from agent.constraint.json_schema.limits import MAX_INLINE_LEVELS
from agent.constraint.json_schema.writing import Hole, Template

# A schema without holes and not longer than this is repeated rather than named.
_SHORT = 60

_BY_NAME = ("properties", "patternProperties")
"""Keywords of a template that hold subschemas by name, and any name may stand there: `enum`, `anyOf`."""


def holes_in(template: Any) -> Iterator[Conjunction]:
    if isinstance(template, Hole):
        yield template.conjunction
    elif isinstance(template, dict):
        for key, value in template.items():
            if key in _BY_NAME:
                for one in value.values():
                    yield from holes_in(one)
            elif key != "enum":
                yield from holes_in(value)
    elif isinstance(template, list):
        for value in template:
            yield from holes_in(value)


class Layout:
    """Which subschemas are named, and the text of all."""

    def __init__(self, templates: dict[Conjunction, Template], root: Conjunction) -> None:
        self._templates = templates
        self._root = root
        self._names: dict[Conjunction, str] = {}
        self._waiting: list[Conjunction] = []
        self._uses = self._count_uses()

    def _count_uses(self) -> Counter[Conjunction]:
        uses = Counter({self._root: 1})
        seen, waiting = {self._root}, [self._root]
        while waiting:
            for conjunction in holes_in(self._templates[waiting.pop()]):
                uses[conjunction] += 1
                if conjunction not in seen:
                    seen.add(conjunction)
                    waiting.append(conjunction)
        return uses

    def schema(self) -> dict[str, Any]:
        whole = self._filled(Hole(self._root), 0)
        definitions = {}
        while self._waiting:
            conjunction = self._waiting.pop()
            definitions[self._names[conjunction]] = self._filled(self._templates[conjunction], 0)
        if whole is True:
            whole = {}
        return {**whole, "$defs": definitions} if definitions else dict(whole)

    def _filled(self, template: Any, level: int) -> Any:
        if isinstance(template, Hole):
            return self._placed(template.conjunction, level)
        if isinstance(template, dict):
            only = template.get("anyOf", [])
            if len(only) == 1:
                return self._filled(only[0], level)
            return {key: self._filled_value(key, value, level + 1) for key, value in template.items()}
        if isinstance(template, list):
            return [self._filled(value, level + 1) for value in template]
        return template

    def _filled_value(self, keyword: str, value: Any, level: int) -> Any:
        if keyword in _BY_NAME:
            return {name: self._filled(one, level + 1) for name, one in value.items()}
        return value if keyword == "enum" else self._filled(value, level)

    def _placed(self, conjunction: Conjunction, level: int) -> Any:
        template = self._templates[conjunction]
        is_short = isinstance(template, bool) or (
            next(holes_in(template), None) is None and len(str(template)) <= _SHORT
        )
        if is_short or (self._uses[conjunction] == 1 and level < MAX_INLINE_LEVELS):
            return self._filled(template, level)
        if conjunction not in self._names:
            self._names[conjunction] = f"d{len(self._names) + 1}"
            self._waiting.append(conjunction)
        return {"$ref": f"#/$defs/{self._names[conjunction]}"}
