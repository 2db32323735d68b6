"""agent/constraint/json_schema/document.py: what a reference means, in both drafts, without fetching anything."""

from typing import Any

import pytest

from agent.constraint.errors import SchemaError
from agent.constraint.json_schema.document import Document

INTEGER: dict[str, Any] = {"type": "integer"}
DRAFT_7 = "http://json-schema.org/draft-07/schema#"


@pytest.mark.parametrize(
    ("root", "reference", "path"),
    [
        ({"$defs": {"a": INTEGER}}, "#/$defs/a", "#/$defs/a"),
        ({"$defs": {"a/b": INTEGER}}, "#/$defs/a~1b", "#/$defs/a~1b"),
        ({"$defs": {"a~b": INTEGER}}, "#/$defs/a~0b", "#/$defs/a~0b"),
        ({"$defs": {"a b": INTEGER}}, "#/$defs/a%20b", "#/$defs/a b"),
        ({"anyOf": [True, INTEGER]}, "#/anyOf/1", "#/anyOf/1"),
        ({"components": {"schemas": {"P": INTEGER}}}, "#/components/schemas/P", "#/components/schemas/P"),
        ({"$defs": {"": INTEGER}}, "#/$defs/", "#/$defs/"),
        ({"$defs": {"a": {"$anchor": "n", **INTEGER}}}, "#n", "#/$defs/a"),
        ({"$defs": {"a": {"$id": "item", **INTEGER}}}, "item", "#/$defs/a"),
        ({"$id": "https://h/r", "$defs": {"a": INTEGER}}, "https://h/r#/$defs/a", "#/$defs/a"),
        ({"$id": "https://h/x/r", "$defs": {"a": {"$id": "/i", **INTEGER}}}, "https://h/i", "#/$defs/a"),
        ({"$schema": DRAFT_7, "definitions": {"a": {"$id": "#n", **INTEGER}}}, "#n", "#/definitions/a"),
    ],
)
def test_references_within_the_document_are_found(root: dict[str, Any], reference: str, path: str) -> None:
    found = Document(root).resolve(reference, "#")
    assert found.path == path
    assert found.value["type"] == "integer"


def test_the_root_is_named_by_a_lone_hash() -> None:
    assert Document(INTEGER).resolve("#", "#/properties/a").value is INTEGER


def test_a_pointer_starts_at_the_resource_it_is_in() -> None:
    root = {"$defs": {"a": {"$id": "inner", "$defs": {"x": INTEGER}, "items": {}}, "x": {"type": "string"}}}
    document = Document(root)
    assert document.resolve("#/$defs/x", "#/$defs/a/items").value == INTEGER
    assert document.resolve("#/$defs/x", "#/items").value == {"type": "string"}


@pytest.mark.parametrize(
    "reference",
    [
        "#/$defs/b",
        "#/anyOf/01x",
        "#/anyOf/5",
        "#nowhere",
        "#/$defs/a/type/0",
        "#/anyOf/-1",
        "#/anyOf/00",
        "#/anyOf/" + "9" * 5_000,
    ],
)
def test_references_to_nothing_are_refused(reference: str) -> None:
    with pytest.raises(SchemaError, match="names nothing"):
        Document({"$defs": {"a": INTEGER}, "anyOf": [True]}).resolve(reference, "#")


@pytest.mark.parametrize(
    "reference", ["https://h.invalid/x.json", "other.json#/a", "http://json-schema.org/schema", "http://[", "//[::1"]
)
def test_references_out_of_the_document_are_refused(reference: str) -> None:
    with pytest.raises(SchemaError, match="nothing is fetched") as refused:
        Document({"$id": "https://h/r", "$defs": {"a": {"$id": "http://[x"}}}).resolve(reference, "#/properties/a")
    assert refused.value.path == "#/properties/a"


def test_an_anchor_that_two_schemas_have_names_neither() -> None:
    root = {"$defs": {"a": {"$anchor": "n"}, "b": {"$anchor": "n"}}}
    with pytest.raises(SchemaError, match="names nothing"):
        Document(root).resolve("#n", "#")


def test_a_dynamic_reference_is_followed_where_only_one_place_can_be_meant() -> None:
    one = {"$defs": {"a": {"$dynamicAnchor": "n", **INTEGER}}}
    assert Document(one).find_dynamic("#n", "#").path == "#/$defs/a"
    two = {"$dynamicAnchor": "n", **one}
    with pytest.raises(SchemaError, match="dynamicRef"):
        Document(two).find_dynamic("#n", "#")


def test_the_draft_is_read_from_the_schema() -> None:
    assert Document({"$schema": DRAFT_7}).is_old_draft
    assert Document({"$schema": "http://json-schema.org/draft-04/schema"}).is_old_draft
    assert not Document({"$schema": "https://json-schema.org/draft/2020-12/schema"}).is_old_draft
    assert not Document({}).is_old_draft
    assert not Document(True).is_old_draft
