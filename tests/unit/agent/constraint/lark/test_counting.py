"""Places in regular trees: they follow the tree's language, and what they hide of pass numbers nobody can tell."""

from itertools import product
from random import Random

import pytest

from agent.constraint.errors import GrammarError
from agent.constraint.languages.regex import parse_regex
from agent.constraint.lark import counting as counting_module
from agent.constraint.lark.checks import checked
from agent.constraint.lark.counting import Counting, NotCountable, Place
from agent.constraint.tree import Grammar, Node, Reference, Sequence, Text, references
from tests.support import budgets
from tests.support.constraint_recogniser import Recogniser
from tests.support.constraint_strings import near_misses, strings_in
from tests.support.random_grammars import RandomGrammars

LETTERS = "abc"
HORIZON = 4


def counting_of(node: Node, **rules: Node) -> Counting:
    plain = checked(Grammar({"root": node, **rules}, "root")).rules
    return Counting.of(plain["root"], {name: body for name, body in plain.items() if name != "root"})


def places_after(counting: Counting, text: str) -> frozenset[Place] | None:
    places: frozenset[Place] | None = None
    for character in text:
        minterm = counting.alphabet.minterm_of(character)
        if places is None:
            places = frozenset(counting.begin(minterm))
        else:
            places = frozenset(target for place in places for target in counting.after(place, minterm))
    return places


def accepts(counting: Counting, text: str) -> bool:
    places = places_after(counting, text)
    return counting.is_nullable if places is None else any(map(counting.may_end, places))


def random_tree(seed: int) -> Grammar | None:
    grammar = RandomGrammars(Random(seed), plain=True).grammar()
    try:
        return checked(grammar)
    except GrammarError:
        return None


def test_it_accepts_what_the_tree_matches() -> None:
    compared = accepted = 0
    for seed in range(15 * budgets.current().hypothesis_examples):
        grammar = random_tree(seed)
        if grammar is None or any(references(grammar.rules["root"])):
            continue
        random = Random(seed)
        try:
            counting = Counting.of(grammar.rules["root"], {})
        except NotCountable:
            continue
        judge = Recogniser(grammar)
        texts = strings_in(grammar, random, 8)
        for text in (text for text in texts + near_misses(texts, random, 8) if len(text) < 30):
            assert accepts(counting, text) == judge.accepts(text), (seed, text)
            compared += 1
            accepted += judge.accepts(text)
    assert compared > 100 * budgets.current().hypothesis_examples / 20
    assert 0.3 * compared < accepted < 0.9 * compared


PATTERNS = [
    "a{2,5}",
    "(ab?){3,9}c",
    "((a|bc){2,4}c){3}",
    "(a{1,3}b){2,}",
    "(a+|b){2,6}",
    "((ab){2}){7,9}",
    "a{20}",
    "(a{0,3}b){7}",
    "(a|ab|abc){4,8}",
    "(ab{3,12}c?){10,}",
    "a*(b{2}a){0,9}",
]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_texts_that_look_the_same_within_a_horizon_go_on_in_the_same_ways(pattern: str) -> None:
    counting = counting_of(parse_regex(pattern))
    seen: dict[object, tuple[str, set[str]]] = {}
    pending, known = [""], {""}
    shared = 0
    while pending:
        text = pending.pop(0)
        places = places_after(counting, text)
        if places is not None:
            key = (frozenset(counting.within(place, HORIZON) for place in places), any(map(counting.may_end, places)))
            ways = _ways(counting, places)
            other, expected = seen.setdefault(key, (text, ways))
            assert ways == expected, (other, text)
            shared += other != text
        for letter in LETTERS:
            longer = text + letter
            if len(longer) < 26 and len(known) < 400 and longer not in known and places_after(counting, longer):
                known.add(longer)
                pending.append(longer)
    assert shared or len(known) < 10


def _ways(counting: Counting, places: frozenset[Place]) -> set[str]:
    """Texts of at most HORIZON characters that can go on from here; with '$' those that can end there."""
    found: set[str] = set()
    layer = {"": places}
    for _ in range(HORIZON):
        following: dict[str, frozenset[Place]] = {}
        for (text, here), letter in product(layer.items(), LETTERS):
            minterm = counting.alphabet.minterm_of(letter)
            there = frozenset(target for place in here for target in counting.after(place, minterm))
            if there:
                following[text + letter] = there
        found |= set(following)
        layer = following
    return found


@pytest.mark.parametrize(("pattern", "positions"), [("a{1000}", 1), ("([A-Z][a-z]{2,9}x){30}", 3), ("(a|b)*c{5,}", 2)])
def test_repetitions_are_counted_and_not_written_out(pattern: str, positions: int) -> None:
    assert len(counting_of(parse_regex(pattern)).masks) == positions


def test_what_cannot_be_counted_is_said_so() -> None:
    for node in (parse_regex("(a*){3}"), Text("a" * 2000), parse_regex("(" + "|".join("abcdefghij" * 30) + "){2}")):
        with pytest.raises(NotCountable):
            Counting.of(node, {})


def test_what_has_too_many_classes_or_ways_to_go_on_is_given_up_at_once() -> None:
    many = "".join(map(chr, range(0x4E00, 0x4E00 + 20_000)))
    words = "|".join(a + b for a in "abcdefghij" for b in "abcdefghij")
    for node in (Text(many), parse_regex("[" + many[::2] + "]{2}"), parse_regex(f"x({words})")):
        with pytest.raises(NotCountable):
            Counting.of(node, {})


def test_rules_named_in_many_places_are_given_up_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    rules: dict[str, Node] = {"r0": Text("")}
    for number in range(1, 60):
        rules[f"r{number}"] = Sequence((Reference(f"r{number - 1}"),) * 2)
    looks = 0
    real = counting_module._Building._look

    def counted(building: object) -> None:
        nonlocal looks
        looks += 1
        real(building)  # type: ignore[arg-type]

    monkeypatch.setattr(counting_module._Building, "_look", counted)
    with pytest.raises(NotCountable):
        Counting.of(Reference("r59"), rules)
    assert looks <= counting_module.MOST_LOOKS + 1
