"""One compile: from a client's text to a pristine matcher that was tried, or to the sentence that refuses it.

Runs on a compile thread. llguidance reports errors in the words of its own grammar, which is of our making: they are
sorted into sentences of ours and never shown.
"""

import logging
import time
from dataclasses import dataclass, replace
from typing import Any

from llguidance import LLMatcher, LLParserLimits

from agent.constraint.errors import ConstraintError, GrammarError, SchemaError
from agent.constraint.json_schema import path_of_fault
from agent.constraint.kept_masks import KeptMasks
from agent.constraint.lark.counting import Counting, NotCountable
from agent.constraint.lark.writing import RegularTree
from agent.constraint.limits import ConstraintLimits
from agent.constraint.pristine import CompiledPart, Pristine, Recipe
from agent.constraint.translation import (
    JSON_SCHEMA,
    LibraryGrammar,
    prepared_grammar,
    schemas_inside,
    to_library_grammars,
)
from agent.constraint.trial_run import EMPTY_LANGUAGE, TOO_COMPLEX, make_first_mask, walk, warm
from shared.failures import Failure, FailureKind
from shared.messages_to_agent import ConstraintText

logger = logging.getLogger(__name__)

PARAMETER = "grammar"
NESTED_TOO_DEEPLY = "nested too deeply; use fewer levels"
TOO_LARGE = "takes too much memory; make it smaller"
NOT_COMPILED = "cannot be turned into something that is followed token by token; simplify it"
FAILED = "the agent failed while it read the constraint"

_BYTES_PER_SECOND = 150 << 20
"""What a compiled form weighs cannot be asked. It grows with the CPU time that llguidance took: 110 MB in 1.0 s for
`a{1000000}`, 26 MB in 0.18 s for an enum of 50,000 words."""
_LEAST_BYTES = 64 << 10
_TRIAL_OF_PARTS_SECONDS = 0.25

UNDECIDED = (
    "a string's pattern together with another pattern, a format or lengths is too complex to be checked for "
    "contradictions; leave one of them out, or simplify it"
)
_LIMIT_WORDS = ("limit", "too many", "too large", "too complex", "too big", "fuel")
_EMPTY_WORDS = ("nsatisfiable",)
_UNDECIDED_WORDS = ("unable to determine if regex is empty",)


def failure_kind(constraint: ConstraintText) -> FailureKind:
    """A schema is `GrammarSyntaxError` on the wire, every other language `GrammarInitializationFailed`."""
    return FailureKind.GRAMMAR_SYNTAX if constraint.kind == JSON_SCHEMA else FailureKind.GRAMMAR_INITIALIZATION


def refusal(constraint: ConstraintText, sentence: str) -> Failure:
    """The failure that refuses this constraint."""
    return Failure(failure_kind(constraint), sentence, PARAMETER)


def compile_constraint(constraint: ConstraintText, recipe: Recipe) -> Pristine | Failure:
    """Parse, translate, compile, try. Never raises. Takes as long as it takes: see `ConstraintCompiler` for waiting."""
    try:
        return _compile(constraint, recipe)
    except ConstraintError as error:
        return refusal(constraint, str(error))
    except RecursionError:
        return refusal(constraint, NESTED_TOO_DEEPLY)
    except MemoryError:
        return refusal(constraint, TOO_LARGE)
    except Exception:  # a bug of ours: this constraint is refused, the agent lives
        logger.exception("a constraint of type %s and %d characters", constraint.kind[:32], len(constraint.text))
        return Failure(FailureKind.INTERNAL, FAILED, PARAMETER)


def _compile(constraint: ConstraintText, recipe: Recipe) -> Pristine:
    """Raises ConstraintError."""
    began = time.monotonic()
    grammars = to_library_grammars(constraint, recipe.vocabulary, recipe.limits.text_bytes)
    started = time.thread_time()
    try:
        root, seconds = _tried(grammars, recipe)
    except GrammarError as error:
        search = _FaultSearch(recipe, str(error), began + recipe.limits.fault_search_seconds)
        search.longest_seconds = time.thread_time() - started
        raise _with_path(constraint, search) from None
    texts_bytes = len(constraint.text) + sum(len(grammar.text) for grammar in grammars)
    weight_bytes = texts_bytes + int(seconds * _BYTES_PER_SECOND) + len(grammars) * _LEAST_BYTES
    return Pristine(root, weight_bytes, recipe.mask_seconds)


def _tried(grammars: tuple[LibraryGrammar, ...], recipe: Recipe) -> tuple[CompiledPart, float]:
    """The root's part, walked for a while, and the CPU time that compiles and first masks took. Raises GrammarError,
    without a position."""
    started = time.thread_time()
    parts = [CompiledPart(_compiled(grammar.text, recipe), grammar.options) for grammar in grammars]
    for part, grammar in zip(parts, grammars, strict=True):
        part.entries = tuple((token, parts[number]) for token, number in grammar.entries.items())
    root = parts[0]
    root.masks = _masks_to_keep(grammars[0].tree, recipe)
    for part in parts[1:]:
        first_of_part = recipe.walk_of(part.matcher)
        make_first_mask(first_of_part, recipe.limits)
        if first_of_part.failed:
            raise GrammarError(TOO_COMPLEX)
    first = recipe.walk_of(root.matcher) if root.is_whole else recipe.walk(root)
    if first.failed:
        raise GrammarError(TOO_COMPLEX)
    warm(first, recipe.limits)
    seconds = time.thread_time() - started
    walk(recipe.walk(root), recipe.limits if root.is_whole else _with_longer_trial(recipe.limits))
    return root, seconds


def _with_longer_trial(limits: ConstraintLimits) -> ConstraintLimits:
    """Where rules begin and end in several ways, a step costs little at first and more with each token."""
    return replace(limits, trial_seconds=max(limits.trial_seconds, _TRIAL_OF_PARTS_SECONDS))


def _masks_to_keep(tree: RegularTree | None, recipe: Recipe) -> KeptMasks | None:
    longest_token_bytes = recipe.vocabulary.longest_token_bytes
    if tree is None or longest_token_bytes is None:
        return None
    try:
        return KeptMasks(Counting.of(*tree), longest_token_bytes, recipe.room)
    except (NotCountable, RecursionError):
        return None


def _compiled(grammar: str, recipe: Recipe) -> LLMatcher:
    """Raises GrammarError, without a position."""
    limits = LLParserLimits(
        initial_lexer_fuel=recipe.limits.lexer_steps,
        max_lexer_states=recipe.limits.lexer_states,
        verbose_errors=False,
    )
    matcher = LLMatcher(recipe.vocabulary.form, grammar, limits=limits, log_level=0)
    if matcher.is_error():
        raise GrammarError(_sentence_for(matcher.get_error()))
    return matcher


@dataclass(slots=True)
class _FaultSearch:
    """Asks of one part of a schema after another whether it alone is refused with the same sentence, while there is
    time: until `deadline`, in monotonic seconds, less what the longest of them took."""

    recipe: Recipe
    sentence: str
    deadline: float
    longest_seconds: float = 0.0

    def is_fault(self, part: dict[str, Any]) -> bool | None:
        started = time.monotonic()
        if started + self.longest_seconds > self.deadline:
            return None
        try:
            _tried((LibraryGrammar(prepared_grammar(part)),), self.recipe)
        except ConstraintError as error:
            return str(error) == self.sentence
        finally:
            self.longest_seconds = max(self.longest_seconds, time.monotonic() - started)
        return False


def _with_path(constraint: ConstraintText, search: _FaultSearch) -> ConstraintError:
    """The refusal with the schema path that it comes from, in so far as it comes from a schema."""
    if constraint.kind == JSON_SCHEMA:
        return SchemaError(search.sentence, path_of_fault(constraint.text, search.is_fault))
    for schema in schemas_inside(constraint, search.recipe.vocabulary):
        if search.is_fault(schema.prepared):
            inner = path_of_fault(schema.given, search.is_fault)
            return SchemaError(search.sentence, schema.path + inner.removeprefix("#"))
    return GrammarError(search.sentence)


def _sentence_for(library_text: str) -> str:
    lowered = library_text.lower()
    if any(word in lowered for word in _EMPTY_WORDS):
        return EMPTY_LANGUAGE
    if any(word in lowered for word in _UNDECIDED_WORDS):
        return UNDECIDED
    return TOO_COMPLEX if any(word in lowered for word in _LIMIT_WORDS) else NOT_COMPILED
