"""Reads members of a schema object with the types that the standard's metaschema demands."""

from fractions import Fraction
from typing import Any, NoReturn

from agent.constraint.errors import SchemaError
from agent.constraint.json_schema.limits import MAX_COUNT, MAX_ENUM_VALUES, MAX_PROPERTIES
from agent.constraint.json_schema.text import pointer
from agent.constraint.json_schema.values import ALL_TYPES, TYPE_NAMES, exact, key_of


class Fields:
    """One schema object. Each method raises SchemaError with the path of the member that is wrong."""

    def __init__(self, raw: dict[str, Any], path: str) -> None:
        self.raw = raw
        self.path = path

    def __contains__(self, key: str) -> bool:
        return key in self.raw

    def refuse(self, key: str, sentence: str) -> NoReturn:
        raise SchemaError(sentence, pointer(self.path, key))

    def count(self, key: str) -> int | None:
        value = self.raw.get(key)
        if key not in self.raw:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or value < 0 or value != int(value):
            self.refuse(key, f"{key} is a whole number, 0 or more")
        if value <= MAX_COUNT:
            return int(value)
        if key.startswith("min"):
            self.refuse(key, f"{key} is above {MAX_COUNT}; no answer is that long")
        return None  # nor is an answer that this would keep from being longer

    def number(self, key: str) -> Fraction | None:
        value = self.raw.get(key)
        if key not in self.raw:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.refuse(key, f"{key} is a number")
        return exact(value)

    def text(self, key: str) -> str | None:
        value = self.raw.get(key)
        if key in self.raw and not isinstance(value, str):
            self.refuse(key, f"{key} is a text")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        value = self.raw.get(key, [])
        if isinstance(value, bool) and key == "required":
            self.refuse(key, "required is a list of names, beside the properties (true is how draft 3 wrote it)")
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            self.refuse(key, f"{key} is a list of texts")
        return tuple(dict.fromkeys(value))

    def schemas(self, key: str) -> list[tuple[Any, str]]:
        """A list of schemas and their paths."""
        value = self.raw.get(key, [])
        if not isinstance(value, list) or (key in self.raw and not value):
            self.refuse(key, f"{key} is a list of schemas with at least one in it")
        return [(item, pointer(self.path, key, at)) for at, item in enumerate(value)]

    def named(self, key: str) -> dict[str, tuple[Any, str]]:
        """Schemas by name."""
        value = self.raw.get(key, {})
        if not isinstance(value, dict):
            self.refuse(key, f"{key} is an object of schemas")
        if len(value) > MAX_PROPERTIES:
            self.refuse(key, f"{key} has more than {MAX_PROPERTIES} members")
        return {name: (item, pointer(self.path, key, name)) for name, item in value.items()}

    def types(self) -> frozenset[str]:
        value = self.raw.get("type")
        if "type" not in self.raw:
            return ALL_TYPES
        names: list[Any] = value if isinstance(value, list) else [value]
        if not names or not all(isinstance(name, str) and name in TYPE_NAMES for name in names):
            self.refuse("type", f"type is one or a list of {', '.join(sorted(TYPE_NAMES))}")
        return frozenset().union(*(TYPE_NAMES[name] for name in names))

    def values(self) -> tuple[Any, ...] | None:
        """What `enum` and `const` leave."""
        if "enum" not in self.raw:
            return (self.raw["const"],) if "const" in self.raw else None
        members = self.raw["enum"]
        if not isinstance(members, list):
            self.refuse("enum", "enum is a list of values")
        if len(members) > MAX_ENUM_VALUES:
            self.refuse("enum", f"enum has more than {MAX_ENUM_VALUES} values")
        different = {key_of(member): member for member in reversed(members)}
        if "const" in self.raw:
            only = key_of(self.raw["const"])
            return tuple(member for key, member in different.items() if key == only)
        return tuple(reversed(different.values()))
