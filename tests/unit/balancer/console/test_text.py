"""Nothing that others chose moves the cursor, columns line up, and numbers are short."""

import json

import pytest

from balancer.console.text import (
    clipped,
    columns_of,
    counted,
    duration,
    escaped_json,
    fitted,
    percent,
    printable,
    rate,
    seconds,
    tail_fitted,
    wrapped,
)


@pytest.mark.parametrize("bad", ["\x1b[2J", "a\nb", "a\rb", "\x9b31m", "\u202eabc", "\x00", "\u2028", "\x7f"])
def test_no_control_character_is_left(bad: str) -> None:
    shown = printable(bad)
    assert shown.isprintable()
    assert "?" in shown


def test_ordinary_text_is_left_alone() -> None:
    assert printable("Müller's GPU 0 模型") == "Müller's GPU 0 模型"


def test_json_stays_the_same_document_and_harmless() -> None:
    document = {"a": "x\x9b\u202e\U000e0001é模", "b": ["\x1b"]}
    text = escaped_json(json.dumps(document, indent=2, ensure_ascii=False))
    assert json.loads(text) == document
    assert all(line.isprintable() for line in text.split("\n"))
    assert "é模" in text


@pytest.mark.parametrize("text", ["", "short", "a rather long name", "模型模型模型", "e\u0301" * 12])
@pytest.mark.parametrize("columns", [1, 2, 7, 12])
def test_a_fitted_text_has_exactly_its_columns(text: str, columns: int) -> None:
    assert columns_of(fitted(text, columns)) == columns
    assert columns_of(tail_fitted(text, columns)) == columns
    assert columns_of(clipped(text, columns)) <= columns


def test_a_cut_says_so_at_its_end_or_beginning() -> None:
    assert fitted("abcdef", 4) == "abc…"
    assert tail_fitted("abcdef", 4) == "…def"
    assert clipped("abc", 4) == "abc"
    assert fitted("x", 0) == ""


def test_numbers_are_short() -> None:
    assert [seconds(value) for value in (None, 0.44, 12.3, 200, 7300, float("inf"))] == [
        *("-", "0.4s", "12s", "3m", "2h", "-")
    ]
    assert [duration(value) for value in (None, 0.00082, 0.0042, 0.021, 1.239)] == [
        *("-", "820 us", "4.2 ms", "21 ms", "1.24 s")
    ]
    assert [rate(value) for value in (None, 0, 3.21, 139.4, 41_200)] == ["-", "0.0", "3.2", "139", "41,200"]
    assert [percent(1, 0), percent(None, 3), percent(1, 3), percent(4, 3)] == ["-", "-", "33%", "100%"]
    assert [counted(1, "agent"), counted(2000, "agent"), counted(2, "reply", "replies")] == [
        *("1 agent", "2,000 agents", "2 replies")
    ]


def test_lines_break_between_words_and_wide_words_anywhere() -> None:
    assert wrapped("one two three", 9, "! ", "  ") == ["! one two", "  three"]
    assert wrapped("abcdefgh xy", 5, "! ", "  ") == ["! abc", "  def", "  gh", "  xy"]
    assert wrapped("", 5, "! ", "  ") == ["! "]
    assert all(columns_of(line) <= 9 for line in wrapped("模型 abc" * 9, 9, "! ", "  "))
