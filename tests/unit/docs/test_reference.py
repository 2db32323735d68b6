"""The pages that are made from the code are in step with it; run `python -m docs.reference` where they are not."""

from collections.abc import Callable
from typing import Any

import pytest

from balancer.openapi_document import openapi_document
from docs.reference.api import SERVICES, api_page
from docs.reference.markdown import table
from docs.reference.pages import FOLDER, PAGES
from docs.reference.schema_words import words
from docs.reference.settings import settings_page


@pytest.mark.parametrize(("name", "page"), PAGES.items(), ids=PAGES)
def test_a_page_is_what_the_code_says(name: str, page: Callable[[], str]) -> None:
    assert (FOLDER / name).read_text(encoding="utf-8") == page(), "run: python -m docs.reference"


def test_the_settings_have_their_second_spellings_bounds_and_defaults() -> None:
    page = settings_page()
    assert "| `--compat-addr`, `--compat-openai-addr` | HOST:PORT | `127.0.0.1:8070` |" in page
    assert "| `--max-choices-per-request` | integer 1 to 128 | `128` |" in page
    assert "| `--drain-timeout` | duration | `60s` |" in page
    assert "| `--management-addr` | HOST:PORT; several times | required |" in page
    assert "| `--completions-text-prompts` | switch | off |" in page


def test_every_operation_and_every_shape_has_its_place() -> None:
    headings = [line for line in api_page().splitlines() if line.startswith("###")]
    for name, _, _, operations in SERVICES:
        assert {f"### `{one.method.upper()} {one.path}`" for one in operations} <= set(headings)
        bodies = {one.body.__name__ for one in operations if one.body is not None}
        shapes = set(openapi_document(name, "", operations)["components"]["schemas"]) - bodies
        assert {f"### {shape}" for shape in shapes} <= set(headings)


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({"type": "integer", "minimum": 0, "maximum": 2**31 - 1}, "integer from 0"),
        ({"type": "integer", "minimum": -1, "not": {"const": 0}}, "integer from -1 but not 0"),
        ({"type": "number", "exclusiveMinimum": 0.0, "maximum": 1.0}, "number over 0 to 1"),
        ({"type": "number", "minimum": 0.5}, "number from 0.5"),
        ({"type": "string", "minLength": 1, "maxLength": 4096}, "text (1 to 4,096 characters)"),
        ({"type": "string", "minLength": 1}, "text (not empty)"),
        ({"type": "array", "items": {"type": "string"}, "maxItems": 32}, "list of texts (up to 32 entries)"),
        ({"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "null"}]}}, "list of (texts or null)"),
        ({"type": "array", "prefixItems": [{"type": "string"}, {}], "minItems": 2}, "[text; anything]"),
        ({"type": "object", "additionalProperties": {"type": "number"}}, "object of numbers"),
        ({"enum": ["a", 1], "type": "string"}, '`"a"`, `1`'),
        ({"$ref": "#/components/schemas/Ready"}, "[Ready](#ready)"),
    ],
)
def test_a_schema_in_words(schema: dict[str, Any], told: str) -> None:
    assert words(schema) == told


@pytest.mark.parametrize("schema", [{"type": "integer", "multipleOf": 2}, {"type": "string", "format": "uri"}])
def test_a_limit_that_it_has_no_words_for_is_not_left_out(schema: dict[str, Any]) -> None:
    with pytest.raises(AssertionError):
        words(schema)


def test_a_bar_in_a_cell_is_no_border() -> None:
    assert table(["a", ""], [["x|y", ""], ["", "z"]]) == ["| a | |", "| --- | --- |", "| x\\|y | |", "| | z |"]


def test_a_last_column_with_nothing_in_it_is_left_out() -> None:
    assert table(["a", ""], [["x", ""]]) == ["| a |", "| --- |", "| x |"]
