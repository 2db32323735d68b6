"""Keys, texts of objects, and how many things a body may hold."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from balancer.body_outline import MAX_BRACKETS_IN_TEXT, MAX_THINGS, TooManyThings, outline_of
from shared.messages_to_agent import MAX_CONSTRAINT_BYTES

PATH = ("outer", "inner")


def text_of(body: str, path: tuple[str, ...] = PATH) -> str | None:
    found = outline_of(body.encode(), [path]).texts.get(path)
    return None if found is None else found.decode()


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ('{"outer": {"inner": {"a": [1, {"b": "}"}]} , "x": 1}}', '{"a": [1, {"b": "}"}]}'),
        ('{"x": {"inner": {"a": 1}}, "outer" : {"y": {"inner": {}}, "inner":\n{}}}', "{}"),
        ('{"out\\u0065r": {"inn\\u0065r": {"\\"": 1}}}', '{"\\"": 1}'),
        ('{"outer": {"inner": "text"}}', None),
        ('{"outer": {"inner": [{"a": 1}]}}', None),
        ('{"outer": [{"inner": {"a": 1}}]}', None),
        ('{"outer": "inner", "inner": {"a": 1}}', None),
        ('{"outer": {"other": {"inner": {"a": 1}}}}', None),
        ('{"outer": {"inner": 1, "other": {}}}', None),
        ('[{"outer": {"inner": {}}}]', None),
    ],
)
def test_an_object_is_found_by_its_path_alone(body: str, text: str | None) -> None:
    json.loads(body)
    assert text_of(body) == text


def test_an_object_that_is_given_twice_is_told() -> None:
    outline = outline_of(b'{"outer": {"inner": {"a": 1}, "inner": {"a": 2}}}', [PATH])
    assert outline.repeated == PATH
    assert outline_of(b'{"outer": {"inner": {"inner": {}}}, "inner": {}}', [PATH]).repeated is None


names = st.sampled_from(["outer", "inner", "x"])
values = st.recursive(
    st.none() | st.text('{}[]":, \\é', max_size=4),
    lambda deeper: st.lists(deeper, max_size=3) | st.dictionaries(names, deeper, max_size=3),
    max_leaves=8,
)


@given(body=st.dictionaries(names, values, max_size=3), indent=st.sampled_from([None, 1]))
def test_the_text_found_is_that_of_the_object_a_parser_finds(body: dict[str, object], indent: int | None) -> None:
    outer = body.get("outer")
    inner = outer.get("inner") if isinstance(outer, dict) else None
    text = text_of(json.dumps(body, indent=indent))
    assert (text is None) == (not isinstance(inner, dict))
    assert text is None or json.loads(text) == inner


def test_an_object_taken_as_text_may_hold_more_things_than_the_rest() -> None:
    words = json.dumps(["w"] * (MAX_THINGS + 1))
    body = f'{{"outer": {{"inner": {{"enum": {words}}}}}}}'
    assert text_of(body) == f'{{"enum": {words}}}'
    with pytest.raises(TooManyThings) as refused:
        outline_of(body.encode(), [("inner", "outer")])
    assert refused.value.most == MAX_THINGS


@pytest.mark.parametrize("inside", ["[" + "[]," * MAX_BRACKETS_IN_TEXT + "[]]", "[" * (MAX_BRACKETS_IN_TEXT + 1)])
def test_an_object_taken_as_text_holds_so_many_lists_and_objects(inside: str) -> None:
    with pytest.raises(TooManyThings) as refused:
        text_of(f'{{"outer": {{"inner": {{"enum": {inside}}}}}}}')
    assert refused.value.most == MAX_BRACKETS_IN_TEXT


def test_in_an_object_that_is_too_large_to_be_used_everything_counts() -> None:
    long = '"' + "x" * MAX_CONSTRAINT_BYTES + '"'
    few, many = (f'{{"enum": [{long}{count * ",0,[]"}]}}' for count in (3, MAX_THINGS))
    assert text_of(f'{{"outer": {{"inner": {few}}}}}') == few
    with pytest.raises(TooManyThings) as refused:
        text_of(f'{{"outer": {{"inner": {many}}}}}')
    assert refused.value.most == MAX_THINGS


@given(st.lists(st.sampled_from(["{", "}", "[", "]", '"', ":", ",", '"outer"', '"inner"', "1"]), max_size=12))
def test_what_is_no_json_is_walked_without_harm(parts: list[str]) -> None:
    outline_of("".join(parts).encode(), [PATH])
