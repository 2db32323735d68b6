"""The text that is written: generated names, escapes only, bounded width and depth."""

import json
import re

import pytest

from agent.constraint.errors import GrammarError
from agent.constraint.lark.writing import to_lark
from agent.constraint.tree import (
    EMPTY,
    CharacterClass,
    Choice,
    FreeText,
    Grammar,
    JsonDocument,
    Node,
    Reference,
    Repeat,
    Sequence,
    Shortest,
    SubstringOf,
    Text,
    TokenNamed,
    TokenSet,
)

ROOT = Reference("root")
SMALL = CharacterClass(((97, 122),))


def lark(root: Node, **rules: Node) -> str:
    return to_lark(Grammar({"root": root, **rules}, "root"))


def test_nothing_of_the_client_is_read_as_lark() -> None:
    text = lark(Sequence((Text('"/\n\\ start: %json <b> é\x00'), Reference("Bad_Name.1"))), **{"Bad_Name.1": SMALL})
    written = text.splitlines()[0]
    assert re.fullmatch(r"T\d+: /[a-z0-9\\x{}A-Z\[\]-]+/", written), written
    assert "Bad" not in text
    assert text.isascii()


def test_the_empty_language_part_is_written_as_a_string() -> None:
    assert lark(EMPTY) == 'r0: ""\nstart: r0\n'
    assert "{0}" not in lark(Choice((Repeat(ROOT, 0, 0), Sequence((Text("("), ROOT, Text(")"))))))


def test_a_nullable_terminal_never_matches_the_empty_text() -> None:
    text = lark(Repeat(Sequence((Repeat(Text("ab"), 0, 1), Repeat(SMALL, 0, 1))), 0, 1))
    assert "& /(?s:.+)/" in text
    assert "T1?" in text


def test_complements_stand_beside_whole_characters() -> None:
    text = lark(FreeText(("<b>",), "<a>"))
    for line in text.splitlines():
        if "~" in line:
            assert re.match(r"X\d+: /\(\?s:\.\*\)", line), line
    text = lark(Shortest(Sequence((Repeat(SMALL, 0, None), Text("x")))))
    assert re.search(r"(X\d+) & ~\(\1 /\(\?s:\.\+\)/\)", text)


def test_documents_carry_the_options() -> None:
    text = to_lark(Grammar({"root": Sequence((Text("<"), JsonDocument({"type": "null"})))}, "root"), {"lenient": False})
    written = next(line for line in text.splitlines() if "%json" in line)
    assert json.loads(written.partition("%json ")[2]) == {"type": "null", "x-guidance": {"lenient": False}}


def test_tokens_and_chunks() -> None:
    text = lark(
        Sequence(
            (TokenSet(frozenset((7, 5))), Repeat(TokenSet(frozenset((7,)), True), 0, None), TokenSet(frozenset((7,))))
        )
    )
    assert "<[5]>" in text
    assert "<[^5,7]>" in text
    assert '%regex {"substring_chunks": ["a b", "\\u00e9"]}' in lark(SubstringOf(("a b", "é", "")))
    with pytest.raises(GrammarError, match="not resolved"):
        lark(TokenNamed("<x>"))


def test_wide_and_deep_trees_are_written_in_pieces() -> None:
    options = (Sequence((Text(f"k{number}("), ROOT, Text(")"))) for number in range(500))
    assert max(line.count("|") for line in lark(Choice((*options, Text(".")))).splitlines()) < 450
    deep: Node = SMALL
    for _ in range(100):
        deep = Repeat(Choice((Sequence((deep, Text("bb"))), Text("c"))), 1, 2)
    assert max(map(depth_of, lark(deep).splitlines())) < 90


def depth_of(line: str) -> int:
    depth = deepest = 0
    for character in line:
        depth += {"(": 1, ")": -1}.get(character, 0)
        deepest = max(deepest, depth)
    return deepest
