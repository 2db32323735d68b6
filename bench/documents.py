"""Texts that the constraints of the comparison allow, as a careful model would write them."""

import json
from typing import Any, Final

_NAMES: Final = ("Amelia", "Jonas", "Ingrid", "Tomasz", "Priya", "Mateo", "Sofia", "Lukas", "Hanna", "Oscar")
_FAMILIES: Final = (
    "Andersson",
    "Kowalski",
    "Moreau",
    "Okafor",
    "Lindqvist",
    "Tanaka",
    "Rossi",
    "Novak",
    "Weber",
    "Silva",
)
_CITIES: Final = ("Lisbon", "Warsaw", "Oslo", "Vienna", "Dublin", "Prague", "Madrid", "Athens", "Geneva", "Naples")
_LANGUAGES: Final = ("English", "Polish", "French", "German", "Spanish", "Italian", "Swedish")
_PROFESSIONS: Final = ("teacher", "engineer", "physician", "gardener", "musician")
_TITLES: Final = ("the quiet harbour", "a winter journey", "letters from home", "the last lantern", "rivers of stone")


def document_of(name: str) -> str:
    """A document for the constraint of this name. Raises KeyError for another name."""
    return {"json_schema": _people, "regex": _sentences, "gbnf": _entries}[name]()


def order(lines: dict[str, Any]) -> str:
    """A document for the order form: every third of its lines, with the members that they must have and the price."""
    chosen = list(lines)[::3]
    filled = {
        name: {"article": f"{_TITLES[index % 5]}, volume {index}", "count": 1 + 7 * index % 90, "price": 3.5 + index}
        for index, name in enumerate(chosen)
    }
    return _compact(filled)


def _people() -> str:
    people = [
        {
            "first_name": _NAMES[index % 10],
            "family_name": _FAMILIES[index * 3 % 10],
            "year_of_birth": 1931 + index * 17 % 90,
            "profession": _PROFESSIONS[index * 2 % 5],
            "languages_spoken": [_LANGUAGES[(index + step) % 7] for step in range(1 + index % 3)],
            "is_available": index % 2 == 0,
        }
        for index in range(13)
    ]
    return _compact(people)


def _sentences() -> str:
    places = range(30)
    return "".join(
        f"{_NAMES[at * 7 % 10]} was born in {1931 + at * 17 % 90} and lives in {_CITIES[at * 3 % 10]}. "
        for at in places
    )


def _entries() -> str:
    return "".join(
        f"- title: {_TITLES[at * 2 % 5]}\n  year: {1931 + at * 17 % 90}\n  rating: {1 + at % 5} stars\n"
        for at in range(36)
    )


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
