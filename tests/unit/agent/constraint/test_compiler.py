"""Each content is compiled once, for everybody who asks, and nobody waits longer than the limit."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from agent.constraint.compiler import MODEL_GOES, OTHERS_TAKE_TOO_LONG, TAKES_TOO_LONG, ConstraintCompiler
from agent.constraint.compiling import refusal
from agent.constraint.limits import ConstraintLimits
from agent.constraint.matcher import ConstraintVocabulary, LlguidanceMatcher
from agent.constraint.pristine import CompiledPart, ConstraintWalk, Pristine, Recipe
from shared.failures import Failure, FailureKind
from shared.messages_to_agent import ConstraintText
from tests.support.scripted_llguidance import ScriptedForm, ScriptedLLMatcher

SECONDS = 10.0


def text(content: str, kind: str = "gbnf", root: str | None = None) -> ConstraintText:
    return ConstraintText(kind=kind, text=content, root=root)


class Compiles:
    """Stands in for the real compile: `bad…` is refused, `slow…` waits for the gate, `bug…` raises."""

    def __init__(self) -> None:
        self.asked: list[ConstraintText] = []
        self.gate = threading.Event()
        self.began = threading.Semaphore(0)

    def __call__(self, constraint: ConstraintText, recipe: Recipe) -> Pristine | Failure:
        self.asked.append(constraint)
        self.began.release()
        if constraint.text.startswith("slow"):
            assert self.gate.wait(SECONDS)
        if constraint.text.startswith("bug"):
            raise ZeroDivisionError
        if constraint.text.startswith("bad"):
            return refusal(constraint, "bad")
        return Pristine(CompiledPart(ScriptedLLMatcher([{1}, {2}])), 1000, recipe.mask_seconds)


Make = Callable[..., ConstraintCompiler]


@pytest.fixture
def compiles() -> Compiles:
    return Compiles()


@pytest.fixture
def make(compiles: Compiles) -> Iterator[Make]:
    made: list[ConstraintCompiler] = []

    def make(**limits: Any) -> ConstraintCompiler:
        given = {"answer_seconds": SECONDS, "threads": 1, "overdue_threads": 1, "stack_bytes": 1 << 20, **limits}
        vocabulary = ConstraintVocabulary(ScriptedForm(8), 8, (0,))
        made.append(ConstraintCompiler(vocabulary, ConstraintLimits(**given), compiles))
        return made[-1]

    yield make
    compiles.gate.set()
    for compiler in made:
        compiler.close()


def matcher(found: ConstraintWalk | Failure) -> LlguidanceMatcher:
    assert isinstance(found, LlguidanceMatcher)
    return found


def failure(found: ConstraintWalk | Failure) -> Failure:
    assert isinstance(found, Failure)
    return found


def test_the_same_content_is_compiled_once_and_walked_apart(make: Make, compiles: Compiles) -> None:
    compiler = make()
    first, second = matcher(compiler.compile(text("a"))), matcher(compiler.compile(text("a")))
    assert first.accept(1)
    assert first.accept(2)
    assert second.allowed().tolist() == [1]
    assert len(compiles.asked) == 1
    counts = compiler.statistics()
    assert (counts.compiles, counts.cache_hits, counts.cached, counts.refused) == (1, 1, 1, 0)


def test_compiles_and_the_masks_of_requests_are_timed_also_after_the_end(make: Make) -> None:
    compiler = make()
    walk = matcher(compiler.compile(text("a")))
    compiler.compile(text("bad"))
    assert walk.mask(np.zeros(8, dtype=np.float32))
    assert sum(compiler.statistics().compile_seconds.counts) == 2
    assert sum(compiler.statistics().mask_seconds.counts) == 1
    compiler.close()
    assert walk.accept(1)
    assert walk.mask(np.zeros(8, dtype=np.float32))
    counts = compiler.statistics()
    assert (counts.compiles, sum(counts.mask_seconds.counts)) == (2, 2)


def test_kind_text_and_root_tell_contents_apart(make: Make, compiles: Compiles) -> None:
    compiler = make()
    for constraint in (text("a"), text("b"), text("a", kind="ebnf"), text("a", root="other")) * 2:
        matcher(compiler.compile(constraint))
    assert len(compiles.asked) == 4


def test_a_refusal_is_kept_too(make: Make, compiles: Compiles) -> None:
    compiler = make()
    assert compiler.compile(text("bad")) == compiler.compile(text("bad")) == refusal(text("bad"), "bad")
    assert len(compiles.asked) == 1
    assert (compiler.statistics().refused, compiler.statistics().cached) == (1, 0)


def test_refused_texts_push_out_no_compiled_form(make: Make, compiles: Compiles) -> None:
    compiler = make(cache_entries=2, refused_entries=1, refused_bytes=100)
    compiler.compile(text("a"))
    for number in range(10):
        compiler.compile(text(f"bad {number}"))
    compiler.compile(text("a"))
    assert compiles.asked.count(text("a")) == 1
    assert compiles.asked.count(text("bad 0")) == 1
    compiler.compile(text("bad 0"))
    assert compiles.asked.count(text("bad 0")) == 2


def test_what_was_used_least_recently_is_compiled_again(make: Make, compiles: Compiles) -> None:
    compiler = make(cache_bytes=2500)
    for content in ("a", "b", "a", "c", "a", "b"):
        compiler.compile(text(content))
    assert [constraint.text for constraint in compiles.asked] == ["a", "b", "c", "b"]


def test_who_asks_while_it_is_compiled_gets_that_compile(make: Make, compiles: Compiles) -> None:
    compiler = make()
    with ThreadPoolExecutor(4) as askers:
        found = [askers.submit(compiler.compile, text("slow")) for _ in range(4)]
        assert compiles.began.acquire(timeout=SECONDS)
        compiles.gate.set()
        walks = {id(matcher(one.result(SECONDS))) for one in found}
    assert len(walks) == 4
    assert len(compiles.asked) == 1


def test_a_compile_that_takes_too_long_is_refused_and_kept_when_it_is_done(make: Make, compiles: Compiles) -> None:
    compiler = make(answer_seconds=0.05)
    refused = failure(compiler.compile(text("slow")))
    assert refused == Failure(FailureKind.GRAMMAR_INITIALIZATION, TAKES_TOO_LONG, "grammar")
    assert failure(compiler.compile(text("slow"))) == refused, "nobody waits for it again"
    assert len(compiles.asked) == 1
    compiles.gate.set()
    deadline = threading.Event()
    for _ in range(1000):
        if isinstance(compiler.compile(text("slow")), LlguidanceMatcher):
            break
        deadline.wait(0.01)
    matcher(compiler.compile(text("slow")))
    assert len(compiles.asked) == 1
    assert compiler.statistics().overdue >= 2


def test_others_go_on_beside_a_compile_that_takes_too_long(make: Make, compiles: Compiles) -> None:
    compiler = make(answer_seconds=0.2)
    failure(compiler.compile(text("slow")))
    matcher(compiler.compile(text("a")))


def test_when_every_thread_is_stuck_others_are_told_so(make: Make, compiles: Compiles) -> None:
    compiler = make(answer_seconds=0.05)
    for content in ("slow 1", "slow 2"):
        assert failure(compiler.compile(text(content))).message == TAKES_TOO_LONG
    assert failure(compiler.compile(text("a"))).message == OTHERS_TAKE_TOO_LONG
    compiles.gate.set()
    for _ in range(1000):
        if isinstance(compiler.compile(text("a")), LlguidanceMatcher):
            break
    matcher(compiler.compile(text("a")))


def test_a_schema_is_refused_in_its_own_kind(make: Make) -> None:
    assert failure(make().compile(text("bad", kind="json_schema"))).kind is FailureKind.GRAMMAR_SYNTAX


def test_a_bug_is_an_answer_and_is_not_kept(make: Make, compiles: Compiles, caplog: pytest.LogCaptureFixture) -> None:
    compiler = make()
    assert failure(compiler.compile(text("bug"))).kind is FailureKind.INTERNAL
    assert failure(compiler.compile(text("bug"))).kind is FailureKind.INTERNAL
    assert len(compiles.asked) == 2
    assert "ZeroDivisionError" in caplog.text


def test_a_closed_compiler_refuses_and_its_matchers_go_on(make: Make, compiles: Compiles) -> None:
    compiler = make()
    walk = matcher(compiler.compile(text("a")))
    with ThreadPoolExecutor(1) as asker:
        waiting = asker.submit(compiler.compile, text("slow"))
        assert compiles.began.acquire(timeout=SECONDS)
        assert compiles.began.acquire(timeout=SECONDS)
        closing = threading.Thread(target=compiler.close)
        closing.start()
        assert failure(waiting.result(SECONDS)).message == MODEL_GOES
        compiles.gate.set()
        closing.join(SECONDS)
    assert failure(compiler.compile(text("a"))).message == MODEL_GOES
    assert compiler.statistics().cached == 0
    assert walk.allowed().tolist() == [1]


def test_a_form_that_one_walk_broke_is_compiled_anew(make: Make, compiles: Compiles) -> None:
    """Copies share a lexer: what one walk breaks is broken for all of them."""
    compiler = make()
    walk = matcher(compiler.compile(text("a")))
    assert not walk.accept(5)
    assert walk.failed
    assert matcher(compiler.compile(text("a"))).accept(1)
    assert len(compiles.asked) == 2


def test_a_worn_form_serves_until_a_new_one_is_there(make: Make, compiles: Compiles) -> None:
    compiler = make(worn_seconds=-1.0)
    compiles.gate.set()
    matcher(compiler.compile(text("slow")))
    assert compiles.began.acquire(timeout=SECONDS)
    compiles.gate.clear()
    for _ in range(3):
        matcher(compiler.compile(text("slow")))
    assert compiles.began.acquire(timeout=SECONDS)
    assert len(compiles.asked) == 2, "one compile at a time takes its place"
    compiles.gate.set()
