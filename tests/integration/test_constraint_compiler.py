"""The compiler over a real vocabulary: what it gives out, what it keeps, and where an output may end."""

import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from agent.constraint.compiler import ConstraintCompiler
from agent.constraint.limits import ConstraintLimits
from agent.constraint.matcher import ConstraintVocabulary, LlguidanceMatcher
from agent.constraint.trial_run import TOO_COMPLEX
from shared.failures import Failure, FailureKind
from shared.messages_to_agent import ConstraintText
from tests.support.tokenizer_forms import OpenVocabulary, demo_vocabulary

pytestmark = pytest.mark.model
ENDS = [0, 2, 4]  # of SmolLM2: <|endoftext|>, <|im_end|>, <reponame>


@pytest.fixture(scope="module")
def opened() -> OpenVocabulary:
    return demo_vocabulary()


@pytest.fixture
def compiler(opened: OpenVocabulary) -> Iterator[ConstraintCompiler]:
    vocabulary = opened.vocabulary
    ends = tuple(sorted(vocabulary.end_of_generation_tokens))
    compiler = ConstraintCompiler(ConstraintVocabulary(opened.form, vocabulary.size, ends))
    yield compiler
    compiler.close()


def gbnf(text: str) -> ConstraintText:
    return ConstraintText(kind="gbnf", text=text)


def regex(text: str) -> ConstraintText:
    return ConstraintText(kind="regex", text=text)


def walk(compiler: ConstraintCompiler, constraint: ConstraintText) -> LlguidanceMatcher:
    found = compiler.compile(constraint)
    assert isinstance(found, LlguidanceMatcher), found
    return found


def refusal(compiler: ConstraintCompiler, constraint: ConstraintText) -> Failure:
    found = compiler.compile(constraint)
    assert isinstance(found, Failure)
    return found


def allowed(matcher: LlguidanceMatcher, size: int) -> list[int]:
    row = np.zeros(size, dtype=np.float32)
    assert matcher.mask(row)
    return np.flatnonzero(row == 0).tolist()


def say(matcher: LlguidanceMatcher, opened: OpenVocabulary, text: str) -> None:
    for token in opened.vocabulary.tokenize(text, add_special=False, parse_special=False):
        assert matcher.accept(token), f"{token} of {text!r} is refused"


def test_a_finished_constraint_is_finished_at_its_last_token(
    compiler: ConstraintCompiler, opened: OpenVocabulary
) -> None:
    matcher = walk(compiler, gbnf('root ::= "{" "}"'))
    finished = [matcher.is_finished]
    forced = matcher.take_forced(16)
    assert opened.text_of(list(forced)) in ("", "{", "{}")
    say(matcher, opened, "{}"[len(opened.text_of(list(forced))) :])
    finished.append(matcher.is_finished)
    assert finished == [False, True]
    assert not matcher.failed


def test_where_one_answer_begins_another_the_end_stands_beside_the_rest(
    compiler: ConstraintCompiler, opened: OpenVocabulary
) -> None:
    matcher = walk(compiler, gbnf('root ::= "ab" | "abc"'))
    assert not set(ENDS) & set(allowed(matcher, opened.vocabulary.size))
    say(matcher, opened, "ab")
    assert not matcher.is_finished
    after = allowed(matcher, opened.vocabulary.size)
    assert set(ENDS) <= set(after), "all tokens that end an answer, not only the EOS"
    assert {opened.text_of([token]) for token in set(after) - set(ENDS)} == {"c"}


def test_the_empty_answer_ends_at_its_first_token(compiler: ConstraintCompiler, opened: OpenVocabulary) -> None:
    for constraint in (gbnf('root ::= ""'), regex("")):
        matcher = walk(compiler, constraint)
        assert not matcher.take_forced(8)
        assert allowed(matcher, opened.vocabulary.size) == ENDS
        assert not matcher.failed


@pytest.mark.parametrize(
    "constraint",
    [
        ConstraintText(kind="ebnf", text='root ::= "(" root ")"'),
        ConstraintText(kind="json_schema", text='{"type": "object", "properties": {"a": false}, "required": ["a"]}'),
        ConstraintText(kind="json_schema", text='{"type": "integer", "minimum": 3, "maximum": 2}'),
        ConstraintText(kind="json_schema", text='{"type": "string", "minLength": 5, "pattern": "^abc$"}'),
    ],
)
def test_what_nothing_satisfies_is_refused(compiler: ConstraintCompiler, constraint: ConstraintText) -> None:
    assert refusal(compiler, constraint).parameter == "grammar"


def test_a_kind_of_failure_for_schemas_and_one_for_grammars(compiler: ConstraintCompiler) -> None:
    schema = refusal(compiler, ConstraintText(kind="json_schema", text='{"type": "strin"}'))
    assert schema.kind is FailureKind.GRAMMAR_SYNTAX
    assert schema.message.startswith("#/type")
    grammar = refusal(compiler, gbnf('root ::= "a"\nb ::= "x'))
    assert grammar.kind is FailureKind.GRAMMAR_INITIALIZATION
    assert grammar.message.startswith("line 2, column ")
    assert refusal(compiler, ConstraintText(kind="prose", text="x")).kind is FailureKind.GRAMMAR_INITIALIZATION


def test_every_kind_compiles(compiler: ConstraintCompiler, opened: OpenVocabulary) -> None:
    schema = '{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}'
    tag = '{"type": "structural_tag", "format": {"type": "const_string", "value": "{\\"a\\":12}"}}'
    for kind, text in (
        ("gbnf", 'root ::= "{" "\\"a\\":" [0-9]+ "}"'),
        ("ebnf", 'root ::= "{\\"a\\":" n "}"\nn ::= n [0-9] | [0-9]'),
        ("regex", r'\{"a":\d+\}'),
        ("json_schema", schema),
        ("structural_tag", tag),
    ):
        matcher = walk(compiler, ConstraintText(kind=kind, text=text))
        say(matcher, opened, '{"a":12}')
        assert matcher.is_finished, kind


def test_walks_are_apart_and_the_kept_one_is_never_advanced(
    compiler: ConstraintCompiler, opened: OpenVocabulary
) -> None:
    constraint = regex("[a-z]{4}")
    first = allowed(walk(compiler, constraint), opened.vocabulary.size)
    one, other = walk(compiler, constraint), walk(compiler, constraint)
    say(one, opened, "abcd")
    assert one.is_finished
    assert allowed(other, opened.vocabulary.size) == first
    assert not other.accept(ENDS[0])
    assert other.failed
    assert allowed(walk(compiler, constraint), opened.vocabulary.size) == first
    assert compiler.statistics().compiles == 1


def test_many_threads_get_walks_of_their_own(compiler: ConstraintCompiler, opened: OpenVocabulary) -> None:
    size = opened.vocabulary.size
    expected = allowed(walk(compiler, regex("(x|y)+")), size)
    start = threading.Barrier(8)

    def ask(number: int) -> bool:
        start.wait(10)
        found = [walk(compiler, regex("(x|y)+")) for _ in range(20)]
        found += [walk(compiler, regex(f"(x|y)+{number}|(x|y)+")) for _ in range(5)]
        return all(allowed(matcher, size) == expected for matcher in found[:20])

    with ThreadPoolExecutor(8) as askers:
        assert all(askers.map(ask, range(8)))
    assert compiler.statistics().compiles == 9


def test_a_token_that_ends_answers_has_no_place_in_a_grammar(compiler: ConstraintCompiler) -> None:
    assert "ends the answer" in refusal(compiler, gbnf('root ::= <|im_end|> "a"')).message
    assert "control token" in refusal(compiler, gbnf('root ::= "a" <nothing-like-it> "b"')).message
    assert "not in the vocabulary" in refusal(compiler, gbnf("root ::= <[49152]>")).message
    assert "no control token" in refusal(compiler, gbnf("root ::= <[100]>")).message


def test_excluding_a_token_excludes_the_ends_too(compiler: ConstraintCompiler, opened: OpenVocabulary) -> None:
    matcher = walk(compiler, gbnf('root ::= !<|im_start|> "a"'))
    found = set(allowed(matcher, opened.vocabulary.size))
    assert not found & {*ENDS, 1}
    assert len(found) == opened.vocabulary.size - 4


def test_forced_text_is_taken_without_sampling(compiler: ConstraintCompiler, opened: OpenVocabulary) -> None:
    matcher = walk(compiler, gbnf('root ::= "The answer to the question is: " [0-9] "."'))
    taken: list[int] = []
    while forced := matcher.take_forced(2):
        assert len(forced) <= 2
        taken += forced
    assert opened.text_of(taken).startswith("The answer to the question is")
    assert not matcher.is_finished


def test_what_stalls_while_it_runs_is_refused_at_once(compiler: ConstraintCompiler) -> None:
    assert refusal(compiler, regex("a{1000000}")).message == TOO_COMPLEX


def test_no_sentence_shows_what_is_ours_alone(compiler: ConstraintCompiler) -> None:
    for constraint in (
        regex("a{1000000}"),
        gbnf("root ::= " + " | ".join(f'"word{number}"' for number in range(60_000))),
        ConstraintText(kind="json_schema", text='{"type": "string", "minLength": 100000, "pattern": "^(ab|cd)*$"}'),
    ):
        message = refusal(compiler, constraint).message
        assert len(message) < 300
        for word in ("panic", "llguidance", "lark", "T1", "non-verbose", "word59999"):
            assert word not in message


def test_a_form_whose_lexer_is_full_is_compiled_anew(opened: OpenVocabulary) -> None:
    """llguidance's copies share their lexer, and its limits: without this the constraint would fail for ever."""
    size = opened.vocabulary.size
    limits = ConstraintLimits(
        lexer_states=9_000, worn_seconds=1e9, trial_tokens=1, run_seconds=1e9, answer_seconds=20.0
    )
    compiler = ConstraintCompiler(ConstraintVocabulary(opened.form, size, tuple(ENDS)), limits)
    constraint = regex(r"(.|\n)*a(.|\n){25}")
    chance = random.Random(0)
    full = walk(compiler, constraint)
    for _ in range(200):
        if full.failed:
            break
        full = walk(compiler, constraint)
        for _ in range(60):
            tokens = [token for token in full.allowed().tolist() if token not in ENDS]
            if not tokens or not full.accept(chance.choice(tokens)):
                break
    assert full.failed
    compiles = compiler.statistics().compiles
    assert allowed(walk(compiler, constraint), size)
    assert compiler.statistics().compiles == compiles + 1
    compiler.close()
