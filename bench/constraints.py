"""The constraints of the comparison, each in our words and in llama-server's. None can end before the limit of the
output, so that every stream makes the same number of tokens."""

from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Constraint:
    """Fields to add to a body: `ours` of the native route, `theirs` of llama-server's `/completion`."""

    name: str
    ours: dict[str, Any]
    theirs: dict[str, Any]


_PERSON: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "first_name": {"type": "string", "minLength": 2, "maxLength": 24},
        "family_name": {"type": "string", "minLength": 2, "maxLength": 24},
        "year_of_birth": {"type": "integer", "minimum": 1900, "maximum": 2025},
        "profession": {"enum": ["teacher", "engineer", "physician", "gardener", "musician"]},
        "languages_spoken": {
            "type": "array",
            "items": {"type": "string", "minLength": 3, "maxLength": 16},
            "minItems": 1,
            "maxItems": 3,
        },
        "is_available": {"type": "boolean"},
    },
    "required": ["first_name", "family_name", "year_of_birth", "profession", "languages_spoken", "is_available"],
    "additionalProperties": False,
}
_PEOPLE: Final[dict[str, Any]] = {"type": "array", "items": _PERSON, "minItems": 12, "maxItems": 16}

_REGEX: Final = r"([A-Z][a-z]{2,9} was born in [0-9]{4} and lives in [A-Z][a-z]{2,9}\. ){30}"
_REGEX_AS_GBNF: Final = (
    'root ::= ([A-Z] [a-z]{2,9} " was born in " [0-9]{4} " and lives in " [A-Z] [a-z]{2,9} ". "){30}' + "\n"
)
"""llama-server has no regular expressions: the same language in its own notation."""

_GBNF: Final = r"""root ::= entry{30,60}
entry ::= "- title: " word (" " word){1,6} "\n  year: " year "\n  rating: " [1-5] " stars\n"
word ::= [a-zA-Z] [a-z']{0,14}
year ::= ("19" | "20") [0-9] [0-9]
"""

CONSTRAINTS: Final = (
    Constraint("json_schema", {"grammar": {"type": "json_schema", "schema": _PEOPLE}}, {"json_schema": _PEOPLE}),
    Constraint("regex", {"grammar": {"type": "regex", "pattern": _REGEX}}, {"grammar": _REGEX_AS_GBNF}),
    Constraint("gbnf", {"grammar": {"type": "gbnf", "grammar": _GBNF, "root": "root"}}, {"grammar": _GBNF}),
)
