"""What a body may be, and the one sentence when it is something else."""

import json
from typing import Annotated

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from balancer.body_outline import MAX_THINGS
from balancer.body_parsing import BodyRefused, parse_body
from shared.desired_state import StrictModel


class Inner(StrictModel):
    limit: int = 0


class Body(StrictModel):
    text: str
    count: Annotated[int, Field(ge=0, le=2**31 - 1)]
    share: float = 0.0
    flag: bool = False
    names: list[str] | None = None
    inner: Inner | None = None


def refusal(data: bytes) -> str:
    with pytest.raises(BodyRefused) as caught:
        parse_body(data, Body)
    assert caught.value.status == 400
    assert caught.value.native_text == f"Json deserialize error: {caught.value.sentence}"
    return caught.value.sentence


def test_a_good_body_becomes_the_model() -> None:
    parsed = parse_body('{"text": "né \\u00e9 \\ud83d\\ude00", "count": 2147483647, "share": 1}'.encode(), Body)
    assert parsed == Body(text="né é 😀", count=2**31 - 1, share=1.0)


@pytest.mark.parametrize(
    "value",
    [b"true", b'"5"', b"1.0", b"1e3", b"null", b"[1]", b"18446744073709551616", b"1" + b"0" * 400],
)
def test_nothing_is_coerced_into_an_integer(value: bytes) -> None:
    sentence = refusal(b'{"text": "x", "count": ' + value + b"}")
    assert sentence == "count: must be an integer" or "not valid JSON" in sentence


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b'{"count": 1}', "text: is required"),
        (b'{"text": "x"}', "count: is required"),
        (b'{"text": "x", "count": -1}', "count: must be at least 0"),
        (b'{"text": "x", "count": 2147483648}', "count: must be at most 2147483647"),
        (b'{"text": "x", "count": 9223372036854775808}', "count: must be at most 2147483647"),
        (b'{"text": 5, "count": 1}', "text: must be a string"),
        (b'{"text": "x", "count": 1, "flag": 1}', "flag: must be true or false"),
        (b'{"text": "x", "count": 1, "share": "1"}', "share: must be a number"),
        (b'{"text": "x", "count": 1, "names": ["a", 5]}', "names.1: must be a string"),
        (b'{"text": "x", "count": 1, "names": {}}', "names: must be a list"),
        (b'{"text": "x", "count": 1, "inner": {"limit": "5"}}', "inner.limit: must be an integer"),
        (b"[]", "the body must be a JSON object"),
        (b'"text"', "the body must be a JSON object"),
        (b"", "the body is empty; send a JSON object"),
        (b" \n", "the body is empty; send a JSON object"),
    ],
)
def test_each_fault_has_one_sentence_that_names_its_field(data: bytes, sentence: str) -> None:
    assert refusal(data) == sentence


@pytest.mark.parametrize(
    "data",
    [
        b'{"text": "x", "count": NaN}',
        b'{"text": "x", "count": 1, "share": Infinity}',
        b'{"text": "x", "count": 1, "share": -Infinity}',
        b'{"text": "\\ud800", "count": 1}',
        b'{"text": "\\udc00\\ud800", "count": 1}',
        b'{"text": "\xff", "count": 1}',
        b'{"text": "\xed\xa0\x80", "count": 1}',  # a surrogate in UTF-8
        b'\xef\xbb\xbf{"text": "x", "count": 1}',
        '{"text": "x", "count": 1}'.encode("utf-16"),
        b'{"text": "x", "count": 1,}',
        b'{"text": "x", "count": 1} {}',
        b"{'text': 'x', 'count': 1}",
        b'{"text": "line\nbreak", "count": 1}',
        b'{"text": "x", "count": 1',
        b"[" * 5_000,
        b'{"text": ' * 5_000,
    ],
)
def test_what_is_not_json_is_refused_without_repeating_it(data: bytes) -> None:
    assert refusal(data).startswith("the body is not valid JSON near line ")


def test_deep_nesting_that_json_allows_is_refused_by_the_model() -> None:
    assert refusal(b'{"text": ' + b"[" * 900 + b"]" * 900 + b', "count": 1}') == "text: must be a string"


@pytest.mark.parametrize(
    "data",
    [
        b'{"text": "x", "count": 1, "count": 2}',
        b'{"text": "x", "count": 1, "\\u0063ount": 2}',
        b'{"count"\t:1,"text": "a \\"count\\": 5 \\\\", "count" : 2}',
        b'{"count": 1, "inner": {"count": [1, "count", {"count": 2}]}, "text": "x", "count": 1}',
    ],
)
def test_a_key_that_stands_twice_is_named(data: bytes) -> None:
    assert refusal(data) == "count: is given twice; give it once"


def test_keys_further_down_and_values_that_look_like_keys_are_no_duplicates() -> None:
    data = b'{"text": "\\"count\\": 1, \\"count\\": {", "count": 1, "inner": {"limit": 5, "limit": 6}}'
    assert parse_body(data, Body).inner == Inner(limit=6)


@pytest.mark.parametrize(
    "many",
    [
        b'{"text": [' + b"[]," * MAX_THINGS + b"[]]}",
        b"{" + b",".join(b'"k%d":1' % number for number in range(MAX_THINGS + 1)) + b"}",
        b'{"text": [' + b"{}," * MAX_THINGS + b"{}]}",
        b'["' + b'","' * MAX_THINGS + b'"]',
        b"[" * (MAX_THINGS + 1),  # no JSON either
    ],
)
def test_a_body_of_too_many_small_things_is_refused_before_any_is_built(many: bytes) -> None:
    with pytest.raises(BodyRefused, match=f"more than {MAX_THINGS} strings, lists and objects") as refused:
        parse_body(many, Body, refuse_duplicate_keys=False)
    assert refused.value.status == 400


def test_brackets_and_quotes_inside_a_text_are_not_counted() -> None:
    text = '[{"\\' * MAX_THINGS
    assert parse_body(json.dumps({"text": text, "count": 1}).encode(), Body).text == text


@pytest.mark.parametrize("data", [b'{"text": "never ends', b'{"text\\"', b'{"a": "\\', b"}]{", b'{"a":1}]'])
def test_what_is_no_json_is_said_to_be_none(data: bytes) -> None:
    with pytest.raises(BodyRefused, match="not valid JSON"):
        parse_body(data, Body)


def test_where_duplicates_are_not_refused_the_last_one_counts() -> None:
    data = b'{"text": "x", "count": 1, "count": 2}'
    assert parse_body(data, Body, refuse_duplicate_keys=False).count == 2


def test_an_unknown_field_is_named_briefly_and_printably() -> None:
    name = "evil\n\u001b[31m" + "x" * 10_000
    sentence = refusal(json.dumps({"text": "secret", "count": 1, name: "secret"}).encode())
    assert sentence.startswith("evil??[31mxxx")
    assert len(sentence) < 200
    assert "secret" not in sentence


def test_no_sentence_repeats_a_value_or_speaks_of_a_library() -> None:
    for data in (b'{"text": 123456, "count": "secret"}', b'{"text": "secret", "count": -5}', b'{"secret'):
        sentence = refusal(data)
        assert not any(word in sentence for word in ("secret", "123456", "pydantic", "orjson", "http", "Input"))


keys = st.text(alphabet='ab"\\é\n{[:,', max_size=4)
values = st.recursive(
    st.none() | st.integers(-5, 5) | keys,
    lambda deeper: st.lists(deeper, max_size=3) | st.dictionaries(keys, deeper, max_size=3),
    max_leaves=6,
)


@given(pairs=st.lists(st.tuples(keys, values), max_size=6), ascii_only=st.booleans())
def test_duplicates_are_found_exactly_as_a_slow_parser_finds_them(
    pairs: list[tuple[str, object]], ascii_only: bool
) -> None:
    members = (f"{json.dumps(k, ensure_ascii=ascii_only)} : {json.dumps(v, indent=1)}" for k, v in pairs)
    data = ("{" + ",".join(members) + "}").encode()
    names = [name for name, _ in pairs]
    with pytest.raises(BodyRefused) as caught:
        parse_body(data, Body)
    assert ("is given twice" in caught.value.sentence) == (len(set(names)) < len(names))
