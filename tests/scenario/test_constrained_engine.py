"""On the tiny F32 model, with the library's own matchers: half of the members constrained, some leaving, and each
answer is that of a run alone. Guards the runs of several pending tokens that forced tokens make."""

from collections.abc import Iterator
from random import Random

import numpy as np
import pytest
from llguidance import LLMatcher
from numpy.typing import NDArray

from agent.constraint.limits import ConstraintLimits
from agent.constraint.matcher import ConstraintVocabulary, LlguidanceMatcher
from agent.constraint.token_mask import MaskWriter
from agent.core.commands import Cancel, Submit
from agent.core.events import MemberEnded, TokensCommitted
from agent.core.scheduler import Scheduler
from agent.llama.backend import LlamaBackend
from agent.llama.context import LlamaContext
from agent.llama_constraints import open_constraint_vocabulary
from agent.sampling.token_sampler import TokenSampler
from shared.generation import FinishReason, SamplingParameters
from tests.support.tiny_engine import ExactParameters, Laboratory
from tests.support.tiny_model import tiny_model_path

GREEDY = SamplingParameters(temperature=0.0, penalty_presence=0.0, penalty_repeat=1.0)
# Forced at the start, in the middle and at the end; what is between them is the model's.
REGEX = r"\{the rain in spain: [a-z ]{3,9}, stays mainly in the plain: [0-9]{2,6}, there it is\}"
PROMPTS = [[3 + (7 * key + 11 * index) % 500 for index in range(20 + 9 * key)] for key in range(6)]
ANSWER_TOKENS = 120

pytestmark = [
    pytest.mark.model,
    pytest.mark.filterwarnings("ignore:llama_token_get_attr is deprecated:DeprecationWarning"),
]

Answer = tuple[tuple[int, ...], str, FinishReason | None]


@pytest.fixture(scope="module")
def laboratory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laboratory]:
    laboratory = Laboratory(tiny_model_path(tmp_path_factory.mktemp("tiny")))
    yield laboratory
    laboratory.close()


@pytest.fixture(scope="module")
def constraints(laboratory: Laboratory) -> ConstraintVocabulary:
    return open_constraint_vocabulary(laboratory.vocabulary)


def matcher_of(vocabulary: ConstraintVocabulary, regex: str = REGEX) -> LlguidanceMatcher:
    matcher = LLMatcher(vocabulary.form, LLMatcher.grammar_from_regex(regex))
    return LlguidanceMatcher(matcher, vocabulary, MaskWriter(vocabulary.size), ConstraintLimits())


class Engine:
    """One context and its scheduler; answers of those that ended."""

    def __init__(
        self, laboratory: Laboratory, constraints: ConstraintVocabulary, cells: int = 1024, draft_tokens: int = 0
    ) -> None:
        parameters = ExactParameters(slots=4, context_size=cells, n_batch=64, k_cache_dtype="F32", v_cache_dtype="F32")
        size = laboratory.vocabulary.size
        context = LlamaContext(laboratory.model, parameters)
        self.backend = LlamaBackend(context, lambda chosen, seed: TokenSampler(chosen, seed, size))
        self.scheduler: Scheduler = laboratory.scheduler(self.backend, slots=4, chunk=16, draft_tokens=draft_tokens)
        self._constraints = constraints
        self._tokens: dict[object, list[int]] = {}
        self._texts: dict[object, str] = {}
        self.answers: dict[int, Answer] = {}
        self.longest_run = 0  # of a member that generates

    def submit(
        self, key: int, *, is_constrained: bool, regex: str = REGEX, sampling: SamplingParameters = GREEDY
    ) -> None:
        matcher = matcher_of(self._constraints, regex) if is_constrained else None
        self._tokens[key], self._texts[key] = [], ""
        self.scheduler.handle(Submit(key, tuple(PROMPTS[key]), ANSWER_TOKENS, sampling, 1, key, 0, matcher))

    def step(self) -> bool:
        plan = self.scheduler.plan_next_batch()
        if plan is not None:
            beyond = [len(run.tokens) for run in plan.runs if run.first_position >= len(PROMPTS[-1])]
            self.longest_run = max([self.longest_run, *beyond])
            self.scheduler.commit(plan, self.backend.decode(plan), self.backend.logits)
            self.scheduler.check_invariants()
        for event in self.scheduler.take_events():
            if isinstance(event, TokensCommitted):
                self._tokens[event.key] += event.token_ids
                self._texts[event.key] += event.text
            elif isinstance(event, MemberEnded):
                assert event.failure is None
                assert event.usage.content_tokens == len(self._tokens[event.key])
                answer = (tuple(self._tokens[event.key]), self._texts[event.key], event.finish_reason)
                self.answers[int(str(event.key))] = answer
        return self.scheduler.has_work


@pytest.fixture(scope="module")
def alone(laboratory: Laboratory, constraints: ConstraintVocabulary) -> dict[int, Answer]:
    """Odd keys are constrained."""
    answers: dict[int, Answer] = {}
    for key in range(len(PROMPTS)):
        engine = Engine(laboratory, constraints)
        engine.submit(key, is_constrained=bool(key % 2))
        while engine.step():
            pass
        engine.backend.close()
        answers |= engine.answers
    return answers


def test_a_constrained_answer_is_whole_and_its_forced_tokens_are_evaluated_together(
    laboratory: Laboratory, constraints: ConstraintVocabulary, alone: dict[int, Answer]
) -> None:
    for key in (1, 3, 5):
        tokens, text, reason = alone[key]
        assert reason is FinishReason.STOP
        check = matcher_of(constraints)
        assert all(check.accept(token) for token in tokens)
        assert check.is_finished
        assert text.startswith("{the rain in spain: ")
    engine = Engine(laboratory, constraints)
    engine.submit(5, is_constrained=True)
    while engine.step():
        pass
    assert engine.longest_run >= 3
    engine.backend.close()


def test_an_answer_is_the_same_when_every_token_is_masked(
    laboratory: Laboratory,
    constraints: ConstraintVocabulary,
    alone: dict[int, Answer],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A greedy member is masked only where the likeliest token is not allowed."""
    masks: list[bool] = []
    make_mask = LlguidanceMatcher.mask

    def counted(matcher: LlguidanceMatcher, row: NDArray[np.float32]) -> bool:
        masks.append(True)
        return make_mask(matcher, row)

    monkeypatch.setattr(LlguidanceMatcher, "mask", counted)

    def answers() -> dict[int, Answer]:
        engine = Engine(laboratory, constraints)
        for key in (1, 3, 5):
            engine.submit(key, is_constrained=True)
        while engine.step():
            pass
        engine.backend.close()
        return engine.answers

    assert answers() == {key: alone[key] for key in (1, 3, 5)}
    usual = len(masks)
    monkeypatch.setattr(TokenSampler, "sure_token", lambda *_: None)
    assert answers() == {key: alone[key] for key in (1, 3, 5)}
    assert len(masks) - usual > usual > 0


@pytest.mark.parametrize("cells", [1024, 256])  # 256: some are set aside
def test_half_constrained_and_some_leaving_each_answer_is_that_of_a_run_alone(
    laboratory: Laboratory, constraints: ConstraintVocabulary, alone: dict[int, Answer], cells: int
) -> None:
    engine = Engine(laboratory, constraints, cells)
    random = Random(cells)
    for key in random.sample(range(6), 6):
        engine.submit(key, is_constrained=bool(key % 2))
        engine.step()
    leaving = random.sample(range(6), 2)
    for _ in range(15):
        engine.step()
    for key in leaving:
        engine.scheduler.handle(Cancel(key))
    while engine.step():
        pass
    assert bool(engine.scheduler.statistics().set_aside_total) is (cells == 256)
    engine.backend.close()
    assert len(engine.answers) == 6
    for key, (tokens, text, reason) in engine.answers.items():
        if reason is FinishReason.CANCELLED:
            assert key in leaving
            assert (tokens, text) == (alone[key][0][: len(tokens)], alone[key][1][: len(text)])
        else:
            assert (tokens, text, reason) == alone[key]


REPEATS = r"((red|green) [0-3]{1,3}; ){15}"
WARM = SamplingParameters(temperature=0.8, top_k=40, top_p=0.95, penalty_presence=0.0, penalty_repeat=1.02)


@pytest.mark.parametrize("sampling", [GREEDY, WARM])
@pytest.mark.parametrize("cells", [1024, 256])
def test_an_answer_is_the_same_when_its_tokens_are_guessed_ahead(
    laboratory: Laboratory, constraints: ConstraintVocabulary, sampling: SamplingParameters, cells: int
) -> None:
    answers, accepted = [], []
    for draft_tokens in (0, 15):
        engine = Engine(laboratory, constraints, cells, draft_tokens)
        for key in range(4):
            engine.submit(key, is_constrained=True, regex=REPEATS, sampling=sampling)
        while engine.step():
            pass
        statistics = engine.scheduler.statistics()
        engine.backend.close()
        answers.append(engine.answers)
        accepted.append(statistics.accepted_tokens)
    assert answers[0] == answers[1]
    assert accepted[0] == 0
    assert accepted[1] >= 10, accepted
