"""Masks that are looked up are those that the library would make, at each place of any walk."""

import functools
from random import Random

import numpy as np
import pytest
from llguidance import LLMatcher
from numpy.typing import NDArray

from agent.constraint.compiler import ConstraintCompiler
from agent.constraint.errors import GrammarError
from agent.constraint.kept_masks import KeptMasks
from agent.constraint.languages.regex import parse_regex
from agent.constraint.lark.counting import Counting, NotCountable
from agent.constraint.lark.writing import to_lark_and_tree
from agent.constraint.limits import ConstraintLimits
from agent.constraint.matcher import ConstraintVocabulary, LlguidanceMatcher
from agent.constraint.pristine import CompiledPart, Recipe
from agent.constraint.token_mask import MaskWriter
from agent.constraint.tree import Grammar
from agent.llama_constraints import open_constraint_vocabulary
from shared.messages_to_agent import ConstraintText
from tests.support import budgets
from tests.support.random_grammars import RandomGrammars
from tests.support.tokenizer_forms import demo_vocabulary

pytestmark = pytest.mark.model

PATTERNS = [
    r"([A-Z][a-z]{2,9} was born in [0-9]{4} and lives in [A-Z][a-z]{2,9}\. ){30}",
    r"(- [a-zA-Z][a-z']{0,14}( [a-z]{1,15}){1,6}\n){30,60}",
    r"a{3,200}",
    r"( {1,40}x){5}",
    r"(\w{1,20}, ){3,}end",
    r"(([äöüß]{2,5}|[一-龥]{1,3}|😀)(, )?){2,20}",
    r"(yes|no|maybe( so){0,3}){2,4}",
    r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    r".{0,30}",
    r"((a|b){1,3}c){2,9}",
    r"(\s{2,5}\S+){4}",
]


@pytest.fixture(scope="module")
def vocabulary() -> ConstraintVocabulary:
    return open_constraint_vocabulary(demo_vocabulary().vocabulary)


@functools.cache
def short_tokens_of(vocabulary: ConstraintVocabulary) -> NDArray[np.intp]:
    """Of one or two bytes: walks over them stay long in bounded repetitions."""
    sizes = [len(vocabulary.form.decode_bytes([token])) for token in range(vocabulary.size)]
    return np.flatnonzero(np.array(sizes) < 3)


def compare_along_walks(part: CompiledPart, vocabulary: ConstraintVocabulary, random: Random, walks: int) -> int:
    """How many masks were compared of which one was looked up."""
    recipe = Recipe(vocabulary, MaskWriter(vocabulary.size), ConstraintLimits())
    short_tokens = short_tokens_of(vocabulary)
    looked_up = 0
    assert part.masks is not None
    for _ in range(walks):
        matcher, plain = recipe.walk_of(part.begin(), masks=part.masks), recipe.walk_of(part.begin())
        for _ in range(40):
            if plain.is_finished or plain.failed:
                break
            looked_up += matcher._where is not None and part.masks.find(matcher._where) is not None
            allowed = matcher.allowed()
            assert np.array_equal(allowed, plain.allowed())
            texts = np.setdiff1d(allowed, vocabulary.end_tokens)
            if not texts.size:
                break
            few = texts[np.isin(texts, short_tokens)]
            token = int(random.choice(few if few.size and random.random() < 0.6 else texts))
            assert matcher.accept(token)
            assert plain.accept(token)
            if random.random() < 0.3:
                assert matcher.take_forced(5) == plain.take_forced(5)
        assert matcher.is_finished == plain.is_finished
    return looked_up


def part_of(grammar: Grammar, vocabulary: ConstraintVocabulary) -> CompiledPart | None:
    lark, tree = to_lark_and_tree(grammar)
    longest = vocabulary.longest_token_bytes
    if tree is None or longest is None:
        return None
    try:
        masks = KeptMasks(Counting.of(*tree), longest)
    except NotCountable:
        return None
    return CompiledPart(LLMatcher(vocabulary.form, lark, log_level=0), masks=masks)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_mask_that_was_kept_is_the_one_that_would_be_made(vocabulary: ConstraintVocabulary, pattern: str) -> None:
    part = part_of(Grammar({"root": parse_regex(pattern)}, "root"), vocabulary)
    assert part is not None
    assert compare_along_walks(part, vocabulary, Random(1), walks=6) > 6


def test_so_it_is_for_trees_at_random(vocabulary: ConstraintVocabulary) -> None:
    looked_up = trees = 0
    for seed in range(budgets.current().hypothesis_examples):
        grammar = RandomGrammars(Random(seed), plain=True).grammar()
        try:
            part = part_of(grammar, vocabulary)
        except GrammarError:
            continue
        if part is not None and not part.matcher.is_error():
            looked_up += compare_along_walks(part, vocabulary, Random(seed), walks=4)
            trees += 1
    assert trees > budgets.current().hypothesis_examples / 4
    assert looked_up > 5 * trees


def test_requests_share_what_is_kept(vocabulary: ConstraintVocabulary) -> None:
    compiler = ConstraintCompiler(vocabulary)
    constraint = ConstraintText(kind="regex", text=PATTERNS[0])
    first, second = compiler.compile(constraint), compiler.compile(constraint)
    assert isinstance(first, LlguidanceMatcher)
    assert isinstance(second, LlguidanceMatcher)
    assert first._kept is not None
    assert first._kept is second._kept
    before = first._kept.size_bytes
    random = Random(3)
    for _ in range(30):
        assert first.accept(random.choice(first.allowed().tolist()))
    assert first._kept.size_bytes > before
    compiler.close()
