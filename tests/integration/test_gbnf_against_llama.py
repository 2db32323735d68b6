"""GBNF means what llama.cpp means: our compiled form and llama.cpp's own sampler accept the same texts.

Four differences are meant, each a rule below: what llama.cpp refuses by the accident of its expansion is accepted
exactly; what it widens in silence is exact or refused; a language without any text is refused; and a character of a
negated class may come in several tokens.
"""

from collections.abc import Iterator
from random import Random

import pytest

from agent.constraint.errors import GrammarError
from agent.constraint.languages.gbnf import parse_gbnf
from agent.constraint.tree import (
    Choice,
    Grammar,
    Node,
    Reference,
    Repeat,
    Sequence,
    Text,
    children,
)
from tests.support import budgets
from tests.support.compiled_form import CompiledForm
from tests.support.constraint_recogniser import Recogniser
from tests.support.constraint_strings import near_misses, strings_in
from tests.support.gbnf_corpus import REFUSED, SAMPLES, Sample
from tests.support.gbnf_text import gbnf_text
from tests.support.llama_grammar_oracle import LlamaGrammarOracle, Verdict
from tests.support.random_grammars import RandomGrammars
from tests.support.tiny_model import demo_model_path
from tests.support.tokenizer_forms import OpenVocabulary, demo_vocabulary

pytestmark = pytest.mark.model
ROOT = "root"


@pytest.fixture(scope="module")
def opened() -> OpenVocabulary:
    return demo_vocabulary()


@pytest.fixture(scope="module")
def oracle() -> Iterator[LlamaGrammarOracle]:
    with LlamaGrammarOracle(demo_model_path()) as oracle:
        yield oracle


def texts_for(grammar: Grammar, random: Random, count: int) -> list[str]:
    texts = strings_in(grammar, random, count)
    # llama.cpp lets no token through that begins with a NUL byte: nothing is learned from such texts.
    return [text for text in texts + near_misses(texts, random, count) if "\0" not in text and len(text) < 80]


def is_nullable(node: Node, nullable: set[str]) -> bool:
    match node:
        case Text(text):
            return not text
        case Reference(name):
            return name in nullable
        case Sequence(parts):
            return all(is_nullable(part, nullable) for part in parts)
        case Choice(options):
            return any(is_nullable(option, nullable) for option in options)
        case Repeat(body, least):
            return least == 0 or is_nullable(body, nullable)
        case _:
            return False


def nullable_rules(grammar: Grammar) -> set[str]:
    nullable: set[str] = set()
    while grown := {name for name, body in grammar.rules.items() if is_nullable(body, nullable)} - nullable:
        nullable |= grown
    return nullable


def repeats_what_may_be_empty(grammar: Grammar) -> bool:
    """Tolerance 1: llama.cpp refuses some repetitions of a body that may be empty, depending on how it is written."""
    nullable = nullable_rules(grammar)
    nodes = list(grammar.rules.values())
    for node in nodes:
        nodes.extend(children(node))
        if isinstance(node, Repeat) and is_nullable(node.body, nullable):
            return True
    return False


def has_hidden_left_recursion(grammar: Grammar) -> bool:
    """Tolerance 2: a rule that begins with itself, behind something that may be empty; llama.cpp's verdict varies."""
    nullable = nullable_rules(grammar)
    begins = {name: first_rules(body, nullable) for name, body in grammar.rules.items()}
    while True:
        grown = {name: firsts.union(*(begins[first] for first in firsts)) for name, firsts in begins.items()}
        if grown == begins:
            return any(name in firsts for name, firsts in begins.items())
        begins = grown


def first_rules(node: Node, nullable: set[str]) -> set[str]:
    match node:
        case Reference(name):
            return {name}
        case Sequence(parts):
            found: set[str] = set()
            for part in parts:
                found |= first_rules(part, nullable)
                if not is_nullable(part, nullable):
                    break
            return found
        case _:
            return set().union(*(first_rules(child, nullable) for child in children(node)))


def has_text(grammar: Grammar) -> bool:
    """Tolerance 3: llama.cpp takes grammars without any text, and then allows nothing, not even the end."""
    judge = Recogniser(grammar)
    return any(judge.accepts(text) for text in strings_in(grammar, Random(0), 3))


def is_cut(text: str, opened: OpenVocabulary) -> bool:
    """Tolerance 4: a character that comes in several tokens. Of its first bytes llama.cpp asks a negated class whether
    some character that begins so is excluded, and then refuses all of them."""
    pieces = [opened.form.decode_bytes([token]) for token in opened.form.tokenize_str(text)]
    return any(piece.decode("utf-8", errors="replace").encode("utf-8") != piece for piece in pieces)


def compiled(text: str, opened: OpenVocabulary) -> tuple[Grammar, CompiledForm]:
    grammar = parse_gbnf(text, ROOT)
    return grammar, CompiledForm(grammar, opened.form)


def assert_same(grammar: str, texts: list[str], verdict: Verdict, opened: OpenVocabulary) -> int:
    """How many texts were compared."""
    tree, form = compiled(grammar, opened)
    compared = 0
    for text, wanted in zip(texts, verdict.accepted, strict=True):
        if wanted is False and "[^" in grammar and is_cut(text, opened):
            wanted = Recogniser(tree).accepts(text)
        if wanted is not None:
            assert form.accepts(text) == wanted, (grammar, text)
            compared += 1
    return compared


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_what_llama_ships_means_the_same(sample: Sample, opened: OpenVocabulary, oracle: LlamaGrammarOracle) -> None:
    grammar = parse_gbnf(sample.grammar, ROOT)
    random = Random(sample.name)
    texts = [*sample.texts, *texts_for(grammar, random, 12), *near_misses(list(sample.texts), random, 20)]
    texts = [text for text in texts if "\0" not in text]
    verdict = oracle.judge(sample.grammar, ROOT, texts)
    assert verdict is not None
    assert not verdict.is_refused
    assert verdict.accepted[: len(sample.texts)] == (True,) * len(sample.texts)
    assert assert_same(sample.grammar, texts, verdict, opened) > 20


@pytest.mark.parametrize("text", REFUSED)
def test_what_llama_refuses_we_refuse(text: str, oracle: LlamaGrammarOracle) -> None:
    with pytest.raises(GrammarError):
        parse_gbnf(text, ROOT)
    if "{5,0}" in text:
        return  # llama.cpp would think until its memory ends
    verdict = oracle.judge(text, ROOT, [])
    assert verdict is not None
    assert verdict.is_refused


def test_an_upper_bound_that_llama_forgets_is_kept(opened: OpenVocabulary, oracle: LlamaGrammarOracle) -> None:
    text = 'root ::= "ab"{1,2001}'
    _, form = compiled(text, opened)
    verdict = oracle.judge(text, ROOT, ["ab" * 2002])
    assert verdict == Verdict(False, (True,))
    assert form.accepts("ab" * 2001)
    assert not form.accepts("ab" * 2002)


def test_a_judge_that_dies_is_replaced(oracle: LlamaGrammarOracle) -> None:
    deaths = oracle.deaths
    oracle._seconds, seconds = 1.0, oracle._seconds
    assert oracle.judge('root ::= "a"{5,0}', ROOT, []) is None
    oracle._seconds = seconds
    assert oracle.deaths == deaths + 1
    assert oracle.judge('root ::= "a"', ROOT, ["a"]) == Verdict(False, (True,))


def test_grammars_at_random_mean_the_same(opened: OpenVocabulary, oracle: LlamaGrammarOracle) -> None:
    examples = 4 * budgets.current().hypothesis_examples
    compared = accepted = unanswered = 0
    for seed in range(examples):
        random = Random(seed)
        written = RandomGrammars(random, plain=True).grammar()
        text = gbnf_text(written)
        texts = texts_for(written, random, 8)
        verdict = oracle.judge(text, ROOT, texts)
        try:
            grammar, form = compiled(text, opened)
        except GrammarError:
            assert verdict is None or verdict.is_refused or not has_text(written), text
            continue
        if verdict is not None and not verdict.is_refused:
            compared += assert_same(text, texts, verdict, opened)
            accepted += sum(answer is True for answer in verdict.accepted)
            continue
        # It crashed, or ambiguity outgrew its time or memory; or it refuses what we do not.
        unanswered += verdict is None
        assert verdict is None or repeats_what_may_be_empty(written) or has_hidden_left_recursion(written), text
        judge = Recogniser(grammar)
        assert all(form.accepts(t) in (None, judge.accepts(t)) for t in texts), text
    assert compared > examples
    assert 0.3 * compared < accepted < 0.9 * compared
    assert unanswered < 0.05 * examples
