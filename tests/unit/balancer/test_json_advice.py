"""A body that is no JSON: the mistakes that people make have an advice of their own."""

import orjson
import pytest

from balancer import json_advice
from balancer.json_advice import json_advice as advice


def advice_on(data: bytes) -> str:
    with pytest.raises(orjson.JSONDecodeError) as caught:
        orjson.loads(data)
    return advice(caught.value.doc, caught.value.pos)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"{'a': 1}", json_advice.QUOTES),
        (b"{\"a\": 'x'}", json_advice.QUOTES),
        (b"{a: 1}", json_advice.QUOTES),
        (b'{"a": x}', json_advice.QUOTES),
        ("{“a”: 1}".encode(), json_advice.QUOTES),
        (b"prompt=x", json_advice.QUOTES),
        (b'{"a": 1', json_advice.TOO_SHORT),
        (b'{"a": "x', json_advice.TOO_SHORT),
        (b'{"a": [1, 2\n ', json_advice.TOO_SHORT),
        (b"[" * 20, json_advice.TOO_SHORT),
        (b'{"a": [1}', json_advice.BRACKETS),
        (b'{"a": 1}}', json_advice.BRACKETS),
        (b'{"a": 1,}', json_advice.COMMA),
        (b"[,1]", json_advice.COMMA),
        (b'{"a": }', json_advice.VALUE),
        (b'{"a":\n, "b": 1}', json_advice.VALUE),
        (b'{"a": True}', json_advice.WORDS),
        (b'{"a": None}', json_advice.WORDS),
        (b'{"a": NaN}', json_advice.NUMBERS),
        (b'{"a": -Infinity}', json_advice.NUMBERS),
        (b'{"a": "x\ny"}', json_advice.CONTROL),
        (b'{"a": 1 "b": 2}', json_advice.ANY),
        (b'{"a": "\\ud800"}', json_advice.ANY),
        (b"\xff", json_advice.ANY),
        (b'\xef\xbb\xbf{"a": 1}', json_advice.ANY),
    ],
)
def test_the_advice_is_about_the_mistake(data: bytes, expected: str) -> None:
    assert advice_on(data) == expected
