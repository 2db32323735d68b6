"""The client's document: where its subschemas are, what they are called, and what a `$ref` means in it.

Nothing is ever fetched: a reference that leaves the document is refused (JSON Schema 2020-12 core, section 8.2).
"""

from typing import Any, NamedTuple
from urllib.parse import unquote, urldefrag, urljoin

from agent.constraint.errors import SchemaError
from agent.constraint.json_schema.text import pointer

_OLD_DRAFTS = ("draft-03", "draft-04", "draft-05", "draft-06", "draft-07")
_ONE_SCHEMA = (
    "not", "if", "then", "else", "contains", "propertyNames", "items", "additionalItems", "additionalProperties",
    "unevaluatedItems", "unevaluatedProperties", "contentSchema",
)  # fmt: skip
_LIST_OF_SCHEMAS = ("allOf", "anyOf", "oneOf", "prefixItems", "items")
_NAMED_SCHEMAS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies")


class Found(NamedTuple):
    """A subschema and where it stands."""

    value: Any
    path: str


class Document:
    """A schema document that was read already. Raises SchemaError where a reference leads nowhere."""

    def __init__(self, root: Any) -> None:
        self._root = root
        declared = root.get("$schema", "") if isinstance(root, dict) else ""
        self.is_old_draft = isinstance(declared, str) and any(draft in declared for draft in _OLD_DRAFTS)
        # Absolute URI of a resource to its root's path, and (path of a resource's root, name) to what an anchor names.
        self._resources: dict[str, str] = {"": "#"}
        self._bases: dict[str, str] = {"#": ""}
        self._anchors: dict[tuple[str, str], list[Found]] = {}
        self._index()

    def resolve(self, reference: str, path: str) -> Found:
        """What `reference`, found in the schema at `path`, refers to."""
        root_path = self._resource_of(path)
        uri, _, fragment = reference.partition("#")
        if uri:
            target = self._resources.get(_joined(self._bases[root_path], uri))
            if target is None:
                raise SchemaError(
                    f"the reference {reference[:80]!r} leaves the document, and nothing is fetched; "
                    "copy what it names into $defs",
                    path,
                )
            root_path = target
        fragment = unquote(fragment)
        if fragment == "" or fragment.startswith("/"):
            return self._at_pointer(root_path, fragment, reference, path)
        named = self._anchors.get((root_path, fragment), [])
        if len(named) != 1:
            raise SchemaError(f"the reference {reference[:80]!r} names nothing in this document", path)
        return named[0]

    def _at_pointer(self, root_path: str, fragment: str, reference: str, path: str) -> Found:
        tokens = [*_tokens(root_path.removeprefix("#")), *_tokens(fragment)]
        value: Any = self._root
        for token in tokens:
            if isinstance(value, dict) and token in value:
                value = value[token]
            elif isinstance(value, list) and _is_index(token) and int(token) < len(value):
                value = value[int(token)]
            else:
                raise SchemaError(f"the reference {reference[:80]!r} names nothing in this document", path)
        return Found(value, pointer("#", *tokens))

    def _resource_of(self, path: str) -> str:
        while path not in self._bases:
            path = path.rpartition("/")[0] or "#"
        return path

    def _index(self) -> None:
        waiting: list[tuple[Any, str, str]] = [(self._root, "#", "#")]
        while waiting:
            schema, path, resource = waiting.pop()
            if not isinstance(schema, dict):
                continue
            resource = self._index_one(schema, path, resource)
            for key in _ONE_SCHEMA:
                waiting.append((schema.get(key), pointer(path, key), resource))
            for key in _LIST_OF_SCHEMAS:
                members = schema.get(key)
                if isinstance(members, list):
                    waiting.extend((item, pointer(path, key, at), resource) for at, item in enumerate(members))
            for key in _NAMED_SCHEMAS:
                named = schema.get(key)
                if isinstance(named, dict):
                    waiting.extend((item, pointer(path, key, name), resource) for name, item in named.items())

    def _index_one(self, schema: dict[str, Any], path: str, resource: str) -> str:
        identifier = schema.get("$id", schema.get("id") if self.is_old_draft else None)
        if isinstance(identifier, str) and not (self.is_old_draft and "$ref" in schema):
            if identifier.startswith("#"):  # a plain name, as drafts 4 to 7 write it
                self._anchors.setdefault((resource, identifier[1:]), []).append(Found(schema, path))
            else:
                uri = _joined(self._bases[resource], identifier)
                self._resources.setdefault(uri, path)
                self._bases[path] = uri
                resource = path
        for key in ("$anchor", "$dynamicAnchor"):
            name = schema.get(key)
            if isinstance(name, str):
                self._anchors.setdefault((resource, name), []).append(Found(schema, path))
        return resource

    def find_dynamic(self, reference: str, path: str) -> Found:
        """A `$dynamicRef`, where only one place in the document can be meant."""
        name = unquote(reference.partition("#")[2])
        places = [found for (_, anchor), all_found in self._anchors.items() if anchor == name for found in all_found]
        if len(places) > 1:
            raise SchemaError("a $dynamicRef that depends on the way taken cannot be enforced; use $ref", path)
        return self.resolve(reference, path)


def _joined(base: str, uri: str) -> str:
    try:
        return urldefrag(urljoin(base, uri))[0]
    except ValueError:  # no URI at all, such as "http://["
        return uri


def _tokens(fragment: str) -> list[str]:
    return [token.replace("~1", "/").replace("~0", "~") for token in fragment.split("/")[1:]]


def _is_index(token: str) -> bool:
    """RFC 6901, section 4: digits without leading zeros."""
    return token.isascii() and token.isdigit() and len(token) < 10 and (token == "0" or not token.startswith("0"))
