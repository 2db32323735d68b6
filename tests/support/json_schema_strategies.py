"""Hypothesis strategies for JSON schemas and for values that tell them apart: a small world, so that things collide."""

from typing import Any

from hypothesis import strategies as st

NAMES = ("a", "b", "ab", "ba", "\u00e9", 'q"', "b\\", "a/b", "\u006120", "enum", "anyOf")
TEXTS = (
    "",
    "a",
    "b",
    "ab",
    "ba",
    "aab",
    "a\n",
    '"',
    "\\",
    "\u00e9",
    "\U0001f600b",
    "2024-02-29",
    "2023-02-29",
    "1.2.3.4",
    "0",
    "a\t",
)
PATTERNS = ("^a", "b$", "^[ab]*$", "a.b|^b", '^[^"]*$', "^[^\\\\]+$", "\\d", "^\\w{1,2}$", "^(?!a)", "(a|b)a?$")
FORMATS = ("date", "ipv4", "ipv6", "uuid", "of-our-own")
NUMBERS = (-2, -1, 0, 1, 2, 3, 4, 0.5, 1.5, -0.5, 2.0, 10, 0.1)
SCALARS = (None, True, False, *NUMBERS, *TEXTS)

numbers = st.sampled_from(NUMBERS)
texts = st.sampled_from(TEXTS)
names = st.sampled_from(NAMES)
counts = st.integers(0, 3)
values = st.recursive(
    st.sampled_from(SCALARS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=5,
)
types = st.sampled_from(("null", "boolean", "integer", "number", "string", "array", "object"))

# How a schema of the type that a keyword speaks of is made to be more frequent than one where it says nothing.
_OF_TYPE = {
    "string": ("minLength", "maxLength", "pattern", "format"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "array": ("items", "prefixItems", "minItems", "maxItems", "contains", "minContains", "maxContains", "uniqueItems",
        "unevaluatedItems",
    ),
    "object": (
        "properties", "required", "additionalProperties", "patternProperties", "propertyNames", "minProperties",
        "maxProperties", "dependentRequired", "dependentSchemas", "unevaluatedProperties",
    ),
    "any": ("enum", "const", "anyOf", "allOf", "oneOf", "not", "if", "$ref", "type"),
}  # fmt: skip
KEYWORDS = tuple(dict.fromkeys(keyword for group in _OF_TYPE.values() for keyword in group))


def keywords_in(schema: Any) -> set[str]:
    """The keywords of a schema of these strategies, its subschemas included."""
    found: set[str] = set()
    waiting = [schema]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            found |= {key for key in item if key in KEYWORDS}
            waiting.extend(value for key, value in item.items() if key not in ("enum", "const"))
        elif isinstance(item, list):
            waiting.extend(item)
    return found


def _keyword(keyword: str, inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    lists = st.lists(inner, min_size=1, max_size=3)
    named = st.dictionaries(names, inner, min_size=1, max_size=3)
    # Back to the whole, but one level down: straight back has no meaning.
    below = inner | st.just({"$ref": "#"})
    members = st.dictionaries(names, below, min_size=1, max_size=3)
    made: dict[str, st.SearchStrategy[Any]] = {
        "minLength": counts, "maxLength": counts, "pattern": st.sampled_from(PATTERNS),
        "format": st.sampled_from(FORMATS), "minimum": numbers,
        "maximum": numbers, "exclusiveMinimum": numbers, "exclusiveMaximum": numbers,
        "multipleOf": st.sampled_from((0.5, 1, 2, 3)), "items": below, "prefixItems": lists, "minItems": counts,
        "maxItems": counts, "contains": inner, "minContains": counts, "maxContains": counts,
        "unevaluatedItems": inner, "unevaluatedProperties": inner, "uniqueItems": st.booleans(), "properties": members,
        "required": st.lists(names, min_size=1, max_size=2, unique=True), "additionalProperties": inner | st.booleans(),
        "patternProperties": st.dictionaries(st.sampled_from(PATTERNS[:8]), inner, min_size=1, max_size=2),
        "propertyNames": st.fixed_dictionaries({"pattern": st.sampled_from(PATTERNS)}) | inner,
        "minProperties": counts, "maxProperties": counts,
        "dependentRequired": st.dictionaries(names, st.lists(names, min_size=1, max_size=2), min_size=1, max_size=2),
        "dependentSchemas": named, "enum": st.lists(values, min_size=1, max_size=4, unique_by=repr), "const": values,
        "anyOf": lists, "allOf": lists, "oneOf": lists, "not": inner, "if": inner, "type": types | st.lists(
            types, min_size=1, max_size=3, unique=True),
        "$ref": st.sampled_from(("#/$defs/x", "#/$defs/y")),
    }  # fmt: skip
    return made[keyword]


_KIND_OF = {keyword: kind for kind, group in _OF_TYPE.items() for keyword in group}


@st.composite
def _with_keyword(draw: Any, inner: st.SearchStrategy[Any], keyword: str | None = None) -> dict[str, Any]:
    """A schema with this keyword, or any, and up to two others that speak of the same type."""
    kind = _KIND_OF[keyword] if keyword else draw(st.sampled_from(tuple(_OF_TYPE)))
    group = _OF_TYPE[kind]
    keywords = draw(st.lists(st.sampled_from(group), min_size=0 if keyword else 1, max_size=2, unique=True))
    schema: dict[str, Any] = {}
    if kind != "any" and draw(st.integers(0, 3)):
        schema["type"] = kind
    for word in dict.fromkeys(([keyword] if keyword else []) + keywords):
        schema[word] = draw(_keyword(word, inner))
    if "minContains" in schema or "maxContains" in schema:
        schema.setdefault("contains", draw(inner))
    if "if" in schema:
        schema["then"] = draw(inner)
        if draw(st.booleans()):
            schema["else"] = draw(inner)
    return schema


_leaves = st.one_of(
    st.booleans(),
    st.builds(lambda kind: {"type": kind}, types),
    st.builds(lambda members: {"enum": members}, st.lists(st.sampled_from(SCALARS), min_size=1, max_size=3)),
    st.builds(lambda text: {"type": "string", "pattern": text}, st.sampled_from(PATTERNS)),
)
subschemas = st.recursive(_leaves, _with_keyword, max_leaves=6)


_without_references = subschemas.filter(lambda schema: "$ref" not in keywords_in(schema))

# Each keyword twice, with different partners: schemas of these pairs, as many of each, hold every one in 6 % or more.
PAIRS = tuple((word, KEYWORDS[(7 * place + 3) % len(KEYWORDS)]) for place, word in enumerate(KEYWORDS))


@st.composite
def schemas(draw: Any, keywords: tuple[str, str]) -> dict[str, Any]:
    """Whole schemas of 2020-12 in which both keywords occur, with two definitions that anything may refer to."""
    one, other = (draw(_with_keyword(subschemas, word)) for word in keywords)
    shape = draw(st.sampled_from(("merged", "allOf", "anyOf", "oneOf", "members", "items", "not", "if")))
    whole: dict[str, Any] = {
        "merged": {**one, **other},
        "allOf": {"allOf": [one, other]},
        "anyOf": {**one, "anyOf": [other, {"type": "null"}]},
        "oneOf": {"oneOf": [one, other]},
        "members": {"type": "object", "properties": {"a": one, 'q"': other}, "required": ["a"]},
        "items": {"type": "array", "prefixItems": [one], "items": other, "maxItems": 3},
        "not": {**one, "not": other},
        "if": {"if": one, "then": other, "else": {"type": draw(types)}},
    }[shape]
    return {**whole, "$defs": {"x": draw(_without_references), "y": draw(_leaves)}}
