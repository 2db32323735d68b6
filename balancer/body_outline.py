"""What orjson does not tell of a body: its top-level keys, repeated ones too, and the text of some objects in it as
the client wrote it.

One pass before anything is built, so that a body of too many small things is refused while that is cheap. Of data that
is no JSON anything may come out. Long strings and number lists are passed over by C code.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import orjson

from shared.messages_to_agent import MAX_CONSTRAINT_BYTES

# A body of 8 MB can hold millions of empty lists or unknown keys. To build and refuse them would take seconds, in which
# this process does little else, and hundreds of megabytes. No body that means something comes near.
MAX_THINGS: Final = 20_000
# Lists and objects inside an object taken as text: more than a JSON schema of 1 MiB needs. Strings do not count.
MAX_BRACKETS_IN_TEXT: Final = 100_000

Path = tuple[str, ...]
"""The names that lead to an object, from the top."""


class TooManyThings(Exception):
    """The body holds more strings, lists and objects than `most`."""

    def __init__(self, most: int) -> None:
        super().__init__(f"more than {most}")
        self.most = most


@dataclass(slots=True)
class BodyOutline:
    """`keys`: raw JSON strings before a colon at depth one. `texts`: of the objects that were asked for; of one that is
    given again (`repeated`) the first."""

    keys: list[bytes] = field(default_factory=list)
    texts: dict[Path, bytes] = field(default_factory=dict)
    repeated: Path | None = None


def outline_of(data: bytes, as_text: Iterable[Path] = ()) -> BodyOutline:
    """Walk the body once. Raises TooManyThings."""
    outline, paths = BodyOutline(), frozenset(as_text)
    names: list[str | None] = [None] * max((len(path) for path in paths), default=1)  # the last key at each depth
    depth = position = things = 0
    while (found := _STRUCTURE.search(data, position)) is not None:
        position = found.end()
        character = found.group()
        if character in b"]}":
            depth -= 1
            continue
        things += 1
        if things > MAX_THINGS:
            raise TooManyThings(MAX_THINGS)
        if character == b'"':
            string = _REST_OF_STRING.match(data, position)
            if string is None:
                break  # it never ends
            position = string.end()
            if 0 < depth <= len(names) and _COLON.match(data, position):
                key = data[found.start() : position]
                names[depth - 1] = _decoded(key) if paths else None
                if depth == 1:
                    outline.keys.append(key)
            continue
        if character == b"{" and 0 < depth <= len(names) and (path := tuple(map(str, names[:depth]))) in paths:
            if path in outline.texts:
                outline.repeated = path
            else:
                end = _end_of_object(data, found.start())
                outline.texts[path] = data[found.start() : end]
                if end - found.start() <= MAX_CONSTRAINT_BYTES:
                    position = end
                    continue  # what is in it is not counted: nothing of ours is built from it
        if 0 <= depth < len(names):
            names[depth] = None  # keys of what is opened; a list has none
        depth += 1
    return outline


_STRUCTURE: Final = re.compile(rb'["\[\]{}]')
_COLON: Final = re.compile(rb"[ \t\r\n]*:")
_REST_OF_STRING: Final = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_TO_BRACKET: Final = re.compile(rb'(?:[^"\[\]{}]++|"[^"\\]*+(?:\\.[^"\\]*+)*+")*+', re.DOTALL)


def _end_of_object(data: bytes, start: int) -> int:
    """Behind the bracket that closes the one at `start`; the data's end when there is none. Raises TooManyThings."""
    depth = brackets = 0
    position = start
    while (position := _end_of_match(data, position)) < len(data):
        character = data[position]
        position += 1
        if character in b"{[":
            depth += 1
            brackets += 1
            if brackets > MAX_BRACKETS_IN_TEXT:
                raise TooManyThings(MAX_BRACKETS_IN_TEXT)
        elif character in b"}]":
            depth -= 1
            if depth == 0:
                return position
        else:
            break  # a string that never ends
    return len(data)


def _end_of_match(data: bytes, position: int) -> int:
    found = _TO_BRACKET.match(data, position)
    assert found is not None  # it matches nothing, at least
    return found.end()


def _decoded(raw: bytes) -> str | None:
    try:
        return str(orjson.loads(raw))
    except orjson.JSONDecodeError:  # the body is no JSON; whoever parses it says so
        return None
