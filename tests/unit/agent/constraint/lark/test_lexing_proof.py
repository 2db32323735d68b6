"""Where the greedy lexer would lose texts, terminals are opened; elsewhere they stay whole."""

import pytest

from agent.constraint.errors import GrammarError
from agent.constraint.lark import confusions, lexing_proof
from agent.constraint.lark.checks import checked
from agent.constraint.lark.normal_form import one_character
from agent.constraint.lark.pieces import Pieces, cut
from agent.constraint.lark.writing import harmless_pieces
from agent.constraint.tree import (
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
    TokenSet,
)

ROOT = Reference("root")
SMALL = CharacterClass(((97, 122),))
ANY = CharacterClass(((0, 0xD7FF), (0xE000, 0x10FFFF)))
CONTROL = TokenSet(frozenset((1,)))
NUMBER = JsonDocument({"type": "integer"})
OBJECT = JsonDocument({"type": "object"})


def nested(node: Node) -> Node:
    """In parentheses any number deep: recursive, so that it is not one terminal as a whole."""
    return Choice((Sequence((Text("("), ROOT, Text(")"))), node))


def pieces_of(root: Node, **rules: Node) -> Pieces:
    return harmless_pieces(Grammar({"root": root, **rules}, "root"))


def terminals_of(root: Node, **rules: Node) -> set[Node]:
    return set(pieces_of(root, **rules).terminals.values())


def test_a_language_without_recursion_is_one_terminal() -> None:
    assert len(pieces_of(Repeat(Choice((Text("ab"), ANY)), 0, None)).terminals) == 1
    assert len(pieces_of(Sequence((Repeat(ANY, 0, None), Text("END")))).terminals) == 1


def test_harmless_pieces_stay_whole() -> None:
    word = Sequence((Text('"'), Repeat(SMALL, 0, None), Text('": ')))
    root = Choice((Sequence((Text("{"), Reference("word"), ROOT, Text("}"))), Text("null")))
    assert terminals_of(root, word=word) == {
        Sequence((one_character(ord("{")), Reference("word"))),
        one_character(ord("}")),
        Text("null"),
    }


def test_free_text_that_swallows_what_follows_it_is_opened() -> None:
    brackets = CharacterClass(
        (
            (
                ord("("),
                ord("("),
            ),
        )
    )
    terminals = terminals_of(nested(Sequence((Repeat(ANY, 0, None), Text("END")))))
    assert ANY in terminals
    assert brackets in terminals
    assert all(isinstance(node, CharacterClass) for node in terminals)


def test_only_the_characters_that_do_harm_are_taken_out_of_a_repetition() -> None:
    """A word before a `b`: only the `b`s in the word have to be read alone."""
    root = Sequence((Text("<"), Repeat(SMALL, 0, None), Reference("rest")))
    terminals = terminals_of(root, rest=Choice((Sequence((Text("b"), ROOT, Text(">"))), Text("."))))
    assert Repeat(CharacterClass(((97, 97), (99, 122))), 0, None) in terminals
    assert Repeat(SMALL, 0, None) not in terminals


def test_a_repetition_that_leads_back_to_its_own_start_is_seen() -> None:
    rest = Choice((Sequence((Text("b"), ROOT, Text(">"))), Text(".")))
    assert Repeat(SMALL, 0, None) not in terminals_of(Sequence((Repeat(SMALL, 0, None), Reference("rest"))), rest=rest)


def test_letters_that_begin_with_the_same_byte_count_as_one() -> None:
    """The lexer reads bytes, so an `é` after `[ê]+` looks like another `ê` at first."""
    rest = Choice((Sequence((Text("é"), ROOT, Text(">"))), Text(".")))
    for letter, stays in (("ê", False), ("日", True)):
        word = Repeat(one_character(ord(letter)), 1, None)
        assert (word in terminals_of(Sequence((word, Reference("rest"))), rest=rest)) == stays


def test_a_literal_beside_a_word_is_opened() -> None:
    """`in` then a word, beside words: after `in` the longer word goes on."""
    root = Choice((Sequence((Text("in"), ROOT)), Sequence((Repeat(SMALL, 1, None), Text(";"), ROOT)), Text(".")))
    terminals = terminals_of(root)
    assert Text("in") not in terminals


def test_documents_are_told_apart_or_refused() -> None:
    pieces_of(Sequence((Text("<f>"), OBJECT, Text("0</f>"))))
    pieces_of(Sequence((NUMBER, Text("\n"))))
    pieces_of(Choice((OBJECT, NUMBER, Text("none"))))
    for root in (
        Sequence((NUMBER, Text("0"))),
        Sequence((JsonDocument({}), Text(".5"))),
        Choice((OBJECT, Text("{}"))),
        Choice((OBJECT, FreeText(("<a>",)))),
    ):
        with pytest.raises(GrammarError, match="JSON document"):
            pieces_of(root)


def test_sets_of_excluded_tokens_beside_text_are_refused() -> None:
    others = TokenSet(frozenset((1,)), negated=True)
    pieces_of(Sequence((Repeat(others, 0, None), CONTROL, Text("x"))))
    with pytest.raises(GrammarError, match="excluded tokens"):
        pieces_of(Sequence((Repeat(others, 0, None), Text("x"))))
    with pytest.raises(GrammarError, match="excluded tokens"):
        pieces_of(Sequence((Repeat(SMALL, 1, None), others, CONTROL)))


def test_free_text_up_to_a_trigger_stays_whole_beside_other_free_text() -> None:
    call, note = FreeText(("<b>",), "<a>"), FreeText(("<a>",), "<b>")
    loop = Repeat(Choice((Sequence((call, OBJECT)), Sequence((note, OBJECT)))), 0, None)
    assert terminals_of(Sequence((loop, FreeText(("<a>", "<b>"))))) == {call, note, FreeText(("<a>", "<b>"))}


def test_free_text_and_substrings_can_be_opened() -> None:
    for node in (FreeText(("no",), "yes"), SubstringOf(("ab", "c")), Shortest(Text("abc"))):
        root = Choice((Sequence((node, ROOT, Text("x"))), Sequence((Repeat(ANY, 1, None), ROOT, Text("y"))), Text("z")))
        assert all(isinstance(left, CharacterClass) for left in terminals_of(root))


def hostile(number: int) -> Grammar:
    """Each of many words, then the whole again."""
    options: list[Node] = [Sequence((Text(f"kw{word}"), ROOT, Text(";"))) for word in range(number)]
    return Grammar({"root": Choice((*options, Repeat(SMALL, 1, None)))}, "root")


def test_work_is_bounded_and_what_is_left_ends_as_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    def overlapping(number: int) -> Node:
        first, last = (CharacterClass(((step * number, step * number + number + 5),)) for step in (3, 2))
        return Sequence((first, ROOT, last))

    monkeypatch.setattr(confusions, "MOST_WALKED", 1_000)
    monkeypatch.setattr(confusions, "MOST_LEAVES_IN_PAIRS", 20)
    root = Choice((*map(overlapping, range(50)), Text("end")))
    assert all(isinstance(node, CharacterClass) for node in terminals_of(root))
    monkeypatch.setattr(lexing_proof, "MOST_SYMBOLS", 100)
    with pytest.raises(GrammarError, match="too ambiguous"):
        pieces_of(root)


def test_many_words_take_few_rounds() -> None:
    grammar = checked(hostile(500))
    pieces = cut(grammar)
    before = len(pieces.terminals)
    after = harmless_pieces(grammar)
    assert len(after.terminals) + len(after.rules) < 4 * before + 20
