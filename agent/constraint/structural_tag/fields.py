"""Strict reading of one object of a structural tag: what is there, of which type, and nothing else.

Every refusal names the place as a JSON pointer (`#/format/tags/0/begin`), with `~` and `/` escaped as RFC 6901 says.
"""

from typing import Any

from agent.constraint.errors import GrammarError
from agent.constraint.languages.source import MAX_REPETITIONS

MAX_STRINGS = 128
MAX_STRING_CHARACTERS = 256
MAX_COUNT = MAX_REPETITIONS
_QUOTED_CHARACTERS = 40

Json = Any


def refusal(path: str, sentence: str) -> GrammarError:
    """The error for what stands at `path`."""
    return GrammarError(f"{path}: {sentence}")


def below(path: str, key: str | int) -> str:
    """The pointer to a member or an element."""
    return f"{path}/{str(key).replace('~', '~0').replace('/', '~1')}"


def quoted(text: str) -> str:
    """A few characters of the client's text, for a sentence."""
    shown = text if len(text) <= _QUOTED_CHARACTERS else text[:_QUOTED_CHARACTERS] + "…"
    return '"' + shown.encode("unicode_escape").decode("ascii").replace('"', '\\"') + '"'


class Fields:
    """Takes the members of one object one by one; `finish` refuses what nobody took."""

    def __init__(self, value: Json, path: str, what: str) -> None:
        """`what` is a noun for sentences: "a tag". Raises GrammarError unless `value` is an object."""
        if not isinstance(value, dict):
            raise refusal(path, f"must be an object: {what}")
        self.path = path
        self._what = what
        self._left: dict[str, Json] = dict(value)

    def has(self, name: str) -> bool:
        """Whether the member is there and not taken yet; null counts as absent."""
        return self._left.get(name) is not None

    def take(self, name: str) -> Json:
        """The member as it is. Raises GrammarError when it is missing or null."""
        value = self._left.pop(name, None)
        if value is None:
            raise refusal(self.path, f'{self._what} needs "{name}"')
        return value

    def string(self, name: str, default: str | None = None) -> str:
        """A string; where a default is given, it may be absent or null."""
        if default is not None and not self.has(name):
            self._left.pop(name, None)
            return default
        return self._checked_string(self.take(name), below(self.path, name))

    def flag(self, name: str, default: bool) -> bool:
        if not self.has(name):
            self._left.pop(name, None)
            return default
        value = self.take(name)
        if not isinstance(value, bool):
            raise refusal(below(self.path, name), "must be true or false")
        return value

    def count(self, name: str, default: int | None = None, *, least: int = 0) -> int | None:
        """A whole number from `least` to MAX_COUNT; `default` when it is absent or null."""
        if not self.has(name):
            self._left.pop(name, None)
            return default
        value = self.take(name)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= MAX_COUNT:
            raise refusal(below(self.path, name), f"must be a whole number from {least} to {MAX_COUNT}")
        return value

    def items(self, name: str, *, may_be_empty: bool = False) -> list[tuple[Json, str]]:
        """The elements of a list, each with its path; an absent list is empty where that is allowed."""
        if may_be_empty and not self.has(name):
            self._left.pop(name, None)
            return []
        path = below(self.path, name)
        values = self.take(name)
        if not isinstance(values, list) or not (values or may_be_empty):
            raise refusal(path, "must be a list" if may_be_empty else "must be a list with at least one element")
        if len(values) > MAX_STRINGS:
            raise refusal(path, f"has {len(values)} elements; at most {MAX_STRINGS} are possible")
        return [(value, below(path, index)) for index, value in enumerate(values)]

    def markers(self, name: str, *, may_be_empty: bool = False) -> tuple[str, ...]:
        """A list of short, non-empty, different strings: what free text is searched for."""
        found: list[str] = []
        for value, path in self.items(name, may_be_empty=may_be_empty):
            text = marker(value, path)
            if text in found:
                raise refusal(path, f"{quoted(text)} is there twice")
            found.append(text)
        return tuple(found)

    def finish(self) -> None:
        """Raises GrammarError for a member that nobody took."""
        for name in self._left:
            raise refusal(self.path, f"{self._what} has no member {quoted(name)}; remove it")

    @staticmethod
    def _checked_string(value: Json, path: str) -> str:
        if not isinstance(value, str):
            raise refusal(path, "must be a string")
        return checked_text(value, path)


def marker(value: Json, path: str) -> str:
    """A short, non-empty string. Raises GrammarError."""
    if not isinstance(value, str) or not value:
        raise refusal(path, "must be a string of at least one character")
    if len(value) > MAX_STRING_CHARACTERS:
        raise refusal(path, f"has {len(value)} characters; at most {MAX_STRING_CHARACTERS} are possible")
    return checked_text(value, path)


def checked_text(value: str, path: str) -> str:
    """`value`, if it can be written in UTF-8. Raises GrammarError for a lone surrogate."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise refusal(path, "holds half of a surrogate pair, which no text can contain") from None
    return value
