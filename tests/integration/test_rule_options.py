"""Rules with options, compiled in parts over a real vocabulary: what they accept, where they end, how warm they are."""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from random import Random

import pytest
from llguidance import LLMatcher

from agent.constraint.compiler import ConstraintCompiler
from agent.constraint.errors import GrammarError
from agent.constraint.languages.ebnf import parse_ebnf
from agent.constraint.lark.writing import to_lark
from agent.constraint.limits import ConstraintLimits
from agent.constraint.matcher import ConstraintVocabulary
from agent.constraint.pristine import CompiledPart, ConstraintWalk, Recipe
from agent.constraint.rule_options import readings
from agent.constraint.rule_options.splitting import split
from agent.constraint.rule_options.walk import RuleWalk
from agent.constraint.token_mask import MaskWriter
from agent.constraint.tree import Grammar, RuleOptions
from agent.constraint.trial_run import TOO_COMPLEX
from agent.constraint.walk_costs import Wear
from shared.failures import Failure
from shared.messages_to_agent import ConstraintText
from tests.support import budgets
from tests.support.constraint_recogniser import Recogniser
from tests.support.constraint_strings import near_misses, strings_in
from tests.support.random_grammars import RandomGrammars
from tests.support.tokenizer_forms import OpenVocabulary, demo_vocabulary

pytestmark = pytest.mark.model

Walk = Callable[[str], RuleWalk]


@pytest.fixture(scope="module")
def opened() -> OpenVocabulary:
    return demo_vocabulary()


@pytest.fixture(scope="module")
def vocabulary(opened: OpenVocabulary) -> ConstraintVocabulary:
    ends = tuple(sorted(opened.vocabulary.end_of_generation_tokens))
    return ConstraintVocabulary(opened.form, opened.vocabulary.size, ends)


@pytest.fixture(scope="module")
def compiler(vocabulary: ConstraintVocabulary) -> Iterator[ConstraintCompiler]:
    compiler = ConstraintCompiler(vocabulary)
    yield compiler
    compiler.close()


@pytest.fixture(scope="module")
def walk(compiler: ConstraintCompiler) -> Walk:
    def begin(grammar: str) -> RuleWalk:
        found = compiler.compile(ConstraintText(kind="ebnf", text=grammar))
        assert isinstance(found, RuleWalk), found
        return found

    return begin


@pytest.fixture(scope="module")
def bytes_as_tokens(opened: OpenVocabulary) -> dict[int, int]:
    """The token that stands for each byte: no rule begins or ends within one."""
    pieces = (opened.vocabulary.token_piece(token) for token in range(opened.vocabulary.size))
    return {piece[0]: token for token, piece in enumerate(pieces) if len(piece) == 1}


def tokens_of(opened: OpenVocabulary, text: str) -> list[int]:
    return opened.vocabulary.tokenize(text, add_special=False, parse_special=False)


def drawn(walk: RuleWalk, vocabulary: ConstraintVocabulary, chance: Random, most: int = 60) -> tuple[list[int], bool]:
    """An answer at random, and whether it is whole."""
    tokens: list[int] = []
    while len(tokens) < most and not walk.is_finished:
        if forced := walk.take_forced(64):
            tokens += forced
            continue
        allowed = set(walk.allowed().tolist())
        texts = sorted(allowed - set(vocabulary.end_tokens))
        if not texts or (len(texts) < len(allowed) and chance.random() < 0.2):
            return tokens, True
        tokens.append(chance.choice(texts))
        assert walk.allows(tokens[-1])
        assert walk.accept(tokens[-1])
    return tokens, len(tokens) < most


def compiled(grammar: Grammar, vocabulary: ConstraintVocabulary) -> CompiledPart:
    """Without the limits of a compile. Raises GrammarError."""
    rule_parts = split(grammar, vocabulary.spare_tokens)
    parts = [
        CompiledPart(LLMatcher(vocabulary.form, to_lark(one.grammar), log_level=0), one.options) for one in rule_parts
    ]
    for part, one in zip(parts, rule_parts, strict=True):
        part.entries = tuple((token, parts[number]) for token, number in one.entries.items())
    return parts[0]


def accepts(walk: ConstraintWalk, tokens: Sequence[int], vocabulary: ConstraintVocabulary) -> bool:
    return all(map(walk.accept, tokens)) and bool(set(walk.allowed().tolist()) & set(vocabulary.end_tokens))


@pytest.mark.parametrize("plain", [True, False], ids=["plain", "every node"])
def test_options_that_never_bind_change_no_language(
    plain: bool,
    vocabulary: ConstraintVocabulary,
    bytes_as_tokens: dict[int, int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(readings, "MOST_READINGS", 50_000)
    monkeypatch.setattr(readings, "MOST_LOOKED_AT", 50_000)
    recipe = Recipe(vocabulary, MaskWriter(vocabulary.size), ConstraintLimits())
    examples = budgets.current().hypothesis_examples
    compared = accepted = refused = 0
    for seed in range(20_000, 20_000 + examples):
        random = Random(seed)
        plain_grammar = RandomGrammars(random, plain=plain).grammar()
        named = [name for name in plain_grammar.rules if random.random() < 0.6] or ["root"]
        options = {name: RuleOptions(max_tokens=1000, temperature=random.choice((None, 0.5))) for name in named}
        judge = Recogniser(plain_grammar)
        texts = strings_in(plain_grammar, random, 8)
        try:
            root = compiled(Grammar(plain_grammar.rules, "root", options), vocabulary)
        except GrammarError as error:
            refused += "begin with each other" in str(error)
            continue
        for text in (text for text in texts + near_misses(texts, random, 8) if len(text) < 9):
            tokens = [bytes_as_tokens[byte] for byte in text.encode("utf-8") if byte in bytes_as_tokens]
            if len(tokens) < len(text.encode("utf-8")):
                continue
            wear = Wear()
            is_accepted = accepts(recipe.walk(root, wear), tokens, vocabulary)
            if wear.is_broken:
                continue  # the library's own limits, in a grammar that is ambiguous without end
            assert is_accepted == judge.accepts(text), (seed, text)
            compared += 1
            accepted += judge.accepts(text)
    assert compared > 3 * examples
    assert 0.3 * compared < accepted < 0.9 * compared
    assert refused < 0.3 * examples


BOUNDED_THINKING = """
root ::= think "</think>" [0-9]+
think[max_tokens=6] ::= [^]*
"""


def test_free_text_ends_after_its_tokens_and_what_follows_is_forced(
    walk: Walk, opened: OpenVocabulary, vocabulary: ConstraintVocabulary
) -> None:
    judge = Recogniser(parse_ebnf(BOUNDED_THINKING))
    for seed in range(20):
        tokens, is_whole = drawn(walk(BOUNDED_THINKING), vocabulary, Random(seed))
        text = opened.text_of(tokens)
        assert is_whole == judge.accepts(text), (seed, text)
        ends = [count for count in range(8) if opened.text_of(tokens[count:]).startswith("</think>")]
        assert ends, (seed, text)
        assert ends[0] <= 6


def test_a_rule_that_cannot_end_goes_on_until_it_can(walk: Walk, opened: OpenVocabulary) -> None:
    grammar = walk('root ::= words "!"\nwords[max_tokens=3] ::= (" one" | " two" " three")+')
    for word in (" one", " one", " two"):
        assert grammar.accept(*tokens_of(opened, word))
    assert not grammar.allows(*tokens_of(opened, "!")), "it had three tokens, and cannot end here"
    assert grammar.accept(*tokens_of(opened, " three"))
    assert opened.text_of(list(grammar.take_forced(9))) == "!"
    assert grammar.is_finished


def test_a_whole_answer_can_be_bounded(walk: Walk, vocabulary: ConstraintVocabulary) -> None:
    for seed in range(10):
        tokens, is_whole = drawn(walk("root[max_tokens=3] ::= [a-z]+"), vocabulary, Random(seed))
        assert is_whole
        assert 1 <= len(tokens) <= 3


def test_answers_of_any_grammar_with_options_are_in_its_language(
    opened: OpenVocabulary, vocabulary: ConstraintVocabulary
) -> None:
    examples = budgets.current().hypothesis_examples
    recipe = Recipe(vocabulary, MaskWriter(vocabulary.size), ConstraintLimits())
    whole = 0
    for seed in range(30_000, 30_000 + examples):
        random = Random(seed)
        plain_grammar = RandomGrammars(random, plain=True).grammar()
        options = {name: RuleOptions(max_tokens=random.randint(1, 3)) for name in plain_grammar.rules}
        try:
            root = compiled(Grammar(plain_grammar.rules, "root", options), vocabulary)
        except GrammarError:
            continue
        walk = recipe.walk(root)
        assert isinstance(walk, RuleWalk)
        tokens, is_whole = drawn(walk, vocabulary, random, most=30)
        if is_whole and not walk.failed:
            text = opened.form.decode_bytes(tokens).decode("utf-8")
            assert Recogniser(plain_grammar).accepts(text), (seed, text)
            whole += 1
    assert whole > examples / 4


AMBIGUOUS = "".join(
    f"r{number}[temperature=0] ::= [a-z]" + "".join(f" | r{later}" for later in range(number + 1, 20)) + "\n"
    for number in range(20)
)


@pytest.mark.parametrize(
    ("grammar", "words"),
    [
        ('root ::= a\na[max_tokens=5] ::= b "x"\nb[max_tokens=2] ::= a "y" | "z"', "cannot begin with each other"),
        ('root ::= a\na[max_tokens=5] ::= a "x"', "matches nothing"),
        (f"root ::= r0\n{AMBIGUOUS}", TOO_COMPLEX),
    ],
)
def test_what_cannot_be_followed_is_refused(compiler: ConstraintCompiler, grammar: str, words: str) -> None:
    found = compiler.compile(ConstraintText(kind="ebnf", text=grammar))
    assert isinstance(found, Failure)
    assert words in found.message


def test_text_in_a_structural_tag_is_bounded_in_tokens(
    compiler: ConstraintCompiler, opened: OpenVocabulary, vocabulary: ConstraintVocabulary
) -> None:
    content = {"type": "any_text", "max_tokens": 4}
    tag = {"type": "tag", "begin": "<think>", "content": content, "end": "</think>"}
    elements = [tag, {"type": "json_schema", "json_schema": {"type": "boolean"}}]
    document = {"type": "structural_tag", "format": {"type": "sequence", "elements": elements}}
    for seed in range(10):
        walk = compiler.compile(ConstraintText(kind="structural_tag", text=json.dumps(document)))
        assert isinstance(walk, RuleWalk), walk
        tokens, is_whole = drawn(walk, vocabulary, Random(seed))
        assert is_whole
        found = re.fullmatch(r"<think>(.*)</think>(true|false)", opened.text_of(tokens), re.DOTALL)
        assert found
        if found[1]:  # without it, one token may hold the end of one tag and the beginning of the other
            before = next(count for count in range(len(tokens)) if opened.text_of(tokens[:count]) == "<think>")
            assert any(opened.text_of(tokens[before + count :]).startswith("</think>") for count in range(5))
