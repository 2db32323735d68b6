"""Puts the written subschemas together: what no value satisfies is taken out, what is used twice gets a name."""

from typing import Any

from agent.constraint.errors import SchemaError
from agent.constraint.json_schema.expansion import Expansion
from agent.constraint.json_schema.keywords import Conjunction
from agent.constraint.json_schema.layout import Layout, holes_in
from agent.constraint.json_schema.limits import MAX_DESCENT, MAX_STATES
from agent.constraint.json_schema.writing import Hole, Template, Writing


class Assembly:
    def __init__(self, expansion: Expansion) -> None:
        self._expansion = expansion
        self._writing = Writing(expansion)
        self._templates: dict[Conjunction, Template] = {}

    def schema(self, root: Conjunction) -> dict[str, Any]:
        """The whole schema. Raises SchemaError: for what cannot be written, and when nothing satisfies it."""
        root = self._expansion.reduction.reduced(root)
        self._write_all(root)
        possible = self._possible()
        if root not in possible:
            path = self._expansion.path(self._culprit(root, possible))
            raise SchemaError("the schema is unsatisfiable: no JSON value satisfies it", path)
        self._take_out_impossible(possible)
        self._check_descent(root)
        return self.part(root)

    # After `schema`: what it was put together from

    def part(self, conjunction: Conjunction) -> dict[str, Any]:
        """What stands for one of the conjunctions, as a schema of its own."""
        return Layout(self._templates, conjunction).schema()

    def inside(self, conjunction: Conjunction) -> list[Conjunction]:
        """The conjunctions that this one's schema refers to, those that say nothing left out."""
        found = dict.fromkeys(holes_in(self._templates[conjunction]))
        return [inner for inner in found if not isinstance(self._templates[inner], bool)]

    def path(self, conjunction: Conjunction) -> str:
        """Where in the client's document it stands."""
        return self._expansion.path(conjunction)

    def _write_all(self, root: Conjunction) -> None:
        waiting = [root]
        while waiting:
            conjunction = waiting.pop()
            if conjunction in self._templates:
                continue
            if len(self._templates) >= MAX_STATES:
                path = self._expansion.path(conjunction)
                raise SchemaError("the schema's combinations are too many to write out; simplify it", path)
            template = self._templates[conjunction] = self._writing.template(conjunction)
            holes = list(holes_in(template))
            self._expansion.subschemas.work.take(1 + len(holes), self._expansion.path(conjunction))
            waiting.extend(reversed(holes))

    # The least fixpoint: a schema has values if it can be satisfied by values that end

    def _possible(self) -> set[Conjunction]:
        possible: set[Conjunction] = set()
        waiting = list(reversed(self._templates))
        while waiting:
            still = [conjunction for conjunction in waiting if not _has_values(self._templates[conjunction], possible)]
            found = set(waiting) - set(still)
            if not found:
                break
            # Those found make others possible, so that a chain is seen in one round where its end is looked at first.
            possible |= found
            waiting = still
        return possible

    def _culprit(self, root: Conjunction, possible: set[Conjunction]) -> Conjunction:
        """The innermost part that alone makes the root impossible: its path is where the client has to look."""
        seen = {root}
        place = root
        while True:
            template = self._templates[place]
            inner = (part for part in holes_in(template) if part not in possible and part not in seen)
            following = next((part for part in inner if _has_values(template, possible | {part})), None)
            if following is None:
                return place
            seen.add(following)
            place = following

    def _take_out_impossible(self, possible: set[Conjunction]) -> None:
        for conjunction in self._templates.keys() - possible:
            self._templates[conjunction] = False
        for conjunction, template in self._templates.items():
            self._templates[conjunction] = _without(template, possible)

    def _check_descent(self, root: Conjunction) -> None:
        """The library descends through names while it reads, and dies of a stack overflow if they lead too deep."""
        seen = {root}
        way = [holes_in(self._templates[root])]
        while way:
            following = next(way[-1], None)
            if following is None:
                way.pop()
            elif following not in seen:
                seen.add(following)
                if len(way) > MAX_DESCENT:
                    raise SchemaError(f"the schema leads deeper than {MAX_DESCENT} levels through its references")
                way.append(holes_in(self._templates[following]))


def _has_values(template: Any, possible: set[Conjunction]) -> bool:
    if isinstance(template, bool):
        return template
    if isinstance(template, Hole):
        return template.conjunction in possible
    if "anyOf" in template:
        return any(_has_values(option, possible) for option in template["anyOf"])
    kinds = template.get("type", "null")
    kinds = {kinds} if isinstance(kinds, str) else set(kinds)
    if "enum" in template or kinds - {"array", "object"}:
        return True
    return ("array" in kinds and _array_has_values(template, possible)) or (
        "object" in kinds and _object_has_values(template, possible)
    )


def _array_has_values(template: dict[str, Any], possible: set[Conjunction]) -> bool:
    least, prefix = template.get("minItems", 0), template.get("prefixItems", [])
    if not all(_has_values(item, possible) for item in prefix[:least]):
        return False
    return least <= len(prefix) or _has_values(template.get("items", True), possible)


def _object_has_values(template: dict[str, Any], possible: set[Conjunction]) -> bool:
    properties = template.get("properties", {})
    if not all(_has_values(properties[name], possible) for name in template.get("required", []) if name in properties):
        return False
    if template.get("minProperties", 0) <= len(template.get("required", [])):
        return True
    others = [template.get("additionalProperties", True), *template.get("patternProperties", {}).values()]
    return any(_has_values(other, possible) for other in others)


def _without(template: Any, possible: set[Conjunction]) -> Any:
    """The template with false in place of each impossible part; a part that must be there takes its whole along."""
    if isinstance(template, bool) or "enum" in template:
        return template
    if "anyOf" in template:
        kept = [option for option in template["anyOf"] if _has_values(option, possible)]
        options = [option if isinstance(option, Hole) else _without(option, possible) for option in kept]
        if True in options:
            return True
        return {"anyOf": options} if len(options) != 1 or isinstance(options[0], Hole) else options[0]
    if not _has_values(template, possible):
        return False
    template = dict(template)
    kinds = template.get("type", [])
    if isinstance(kinds, list) and kinds:
        if not _array_has_values(template, possible):
            kinds = [kind for kind in kinds if kind != "array"]
        if not _object_has_values(template, possible):
            kinds = [kind for kind in kinds if kind != "object"]
        template["type"] = kinds[0] if len(kinds) == 1 else kinds
    for key in ("properties", "patternProperties"):
        if key in template:
            members = template[key].items()
            template[key] = {name: value if _has_values(value, possible) else False for name, value in members}
    for key in ("additionalProperties", "items"):
        if key in template and not _has_values(template[key], possible):
            template[key] = False
    if "prefixItems" in template:
        kept = [item if _has_values(item, possible) else False for item in template["prefixItems"]]
        template["prefixItems"] = kept
    return template
