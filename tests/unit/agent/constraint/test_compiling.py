"""Whatever a compile meets becomes a sentence of ours; the library's words are never shown."""

from typing import Any

import pytest

from agent.constraint import compiling
from agent.constraint.compiling import FAILED, NESTED_TOO_DEEPLY, NOT_COMPILED, TOO_LARGE, UNDECIDED
from agent.constraint.errors import GrammarError, SchemaError
from agent.constraint.limits import ConstraintLimits
from agent.constraint.matcher import ConstraintVocabulary
from agent.constraint.pristine import Pristine, Recipe
from agent.constraint.token_mask import MaskWriter
from agent.constraint.translation import LibraryGrammar
from agent.constraint.tree import Position
from agent.constraint.trial_run import EMPTY_LANGUAGE, TOO_COMPLEX
from shared.failures import Failure, FailureKind
from shared.messages_to_agent import ConstraintText
from tests.support.scripted_llguidance import ScriptedForm, ScriptedLLMatcher

GBNF = ConstraintText(kind="gbnf", text="root ::= secret")
LIMITS = ConstraintLimits(first_mask_seconds=60.0, step_seconds=60.0)
RECIPE = Recipe(ConstraintVocabulary(ScriptedForm(8), 8, (0,)), MaskWriter(8), LIMITS)


def outcome(
    monkeypatch: pytest.MonkeyPatch, raised: Exception | None = None, library_text: str = "", places: Any = ({1},)
) -> Pristine | Failure:
    def translate(*_: object) -> tuple[LibraryGrammar, ...]:
        if raised is not None:
            raise raised
        return (LibraryGrammar("{}"),)

    class Library(ScriptedLLMatcher):
        def __init__(self, *_: object, **__: object) -> None:
            super().__init__(places, error=bool(library_text))

        def get_error(self) -> str:
            return library_text

    monkeypatch.setattr(compiling, "to_library_grammars", translate)
    monkeypatch.setattr(compiling, "LLMatcher", Library)
    return compiling.compile_constraint(GBNF, RECIPE)


@pytest.mark.parametrize(
    ("raised", "sentence"),
    [
        (GrammarError("no such rule", Position(2, 7)), "line 2, column 7: no such rule"),
        (SchemaError("not enforced", "#/a"), "#/a: not enforced"),
        (RecursionError(), NESTED_TOO_DEEPLY),
        (MemoryError(), TOO_LARGE),
    ],
)
def test_what_is_the_constraint_s_own_fault_refuses_it(
    monkeypatch: pytest.MonkeyPatch, raised: Exception, sentence: str
) -> None:
    assert outcome(monkeypatch, raised) == Failure(FailureKind.GRAMMAR_INITIALIZATION, sentence, "grammar")


def test_a_bug_is_logged_without_the_client_s_text(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    found = outcome(monkeypatch, ZeroDivisionError("a bug"))
    assert found == Failure(FailureKind.INTERNAL, FAILED, "grammar")
    assert "ZeroDivisionError" in caplog.text
    assert "secret" not in caplog.text


@pytest.mark.parametrize(
    ("library_text", "sentence"),
    [
        ("at 1(8): invalid regex\n 1 | start: T1", NOT_COMPILED),
        ("panic: assertion failed: symbols < 65000", NOT_COMPILED),
        ("initial lexer configuration (grammar) too big (limit for this grammar: 300000)", TOO_COMPLEX),
        ("Unable to determine if regex is empty:  (And (SearchRegex /^a{900}$/) ...)", UNDECIDED),
        ("lexer error: too many states: 5 >= 5\n<non-verbose/>", TOO_COMPLEX),
        ("Unsatisfiable schema: required property 'a' is unsatisfiable", EMPTY_LANGUAGE),
    ],
)
def test_the_library_s_errors_become_our_sentences(
    monkeypatch: pytest.MonkeyPatch, library_text: str, sentence: str
) -> None:
    assert outcome(monkeypatch, library_text=library_text) == Failure(
        FailureKind.GRAMMAR_INITIALIZATION, sentence, "grammar"
    )


def test_a_form_weighs_more_the_longer_it_is_walked(monkeypatch: pytest.MonkeyPatch) -> None:
    found = outcome(monkeypatch)
    assert isinstance(found, Pristine)
    at_first = found.weight_bytes
    assert at_first > 0
    found.wear.seconds += 1.0
    assert found.weight_bytes > at_first + 1_000_000
