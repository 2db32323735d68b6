"""The options of the library's schema compiler that are always set, whatever a client writes."""

from typing import Any

# Pass as `overrides=` with a whole schema, and as the member "x-guidance" of a schema inside a larger grammar, which
# overrides do not reach. A client's own "x-guidance" is refused before.
#   whitespace_flexible   compact output: white space is unbounded otherwise, and weak models write nothing else
#   json_allowed_escapes  no \u: "\u0061" is another spelling of "a", which the library does not see through
OPTIONS: dict[str, Any] = {
    "item_separator": ",",
    "key_separator": ":",
    "whitespace_flexible": False,
    "whitespace_pattern": None,
    "json_allowed_escapes": 'nrbtf\\"',
    "coerce_one_of": False,
    "lenient": False,
}

SHORT_ESCAPES = frozenset("\b\t\n\f\r")


def is_writable(text: str) -> bool:
    """Whether a JSON string under OPTIONS can hold `text`: control characters have their short escape or none."""
    return all((character >= " " and character != "\x7f") or character in SHORT_ESCAPES for character in text)
