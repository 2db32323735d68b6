"""On a tiny F32 model: log-probabilities of prompt and answer are those of a direct evaluation of the same tokens."""

from collections.abc import Iterator
from random import Random

import numpy as np
import pytest

from agent.core.backend import BatchPlan, DecodeOutcome, LogprobsWanted, PlannedRun
from agent.core.commands import Submit
from agent.core.events import EngineEvent, MemberEnded, PromptLogprobs, TokensCommitted
from agent.core.scheduler import Scheduler
from agent.llama.backend import LlamaBackend
from shared.generation import SamplingParameters
from shared.logprobs import LogprobPlace
from tests.support.tiny_engine import Laboratory, RecordingSampler
from tests.support.tiny_model import tiny_model_path

TOLERANCE = 1e-3
ASKED = 17

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def laboratory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laboratory]:
    laboratory = Laboratory(tiny_model_path(tmp_path_factory.mktemp("tiny")))
    yield laboratory
    laboratory.close()


def prompt_of(seed: int, count: int) -> list[int]:
    random = Random(seed)
    return [random.randrange(3, 512) for _ in range(count)]


def run(backend: LlamaBackend, scheduler: Scheduler, *requests: Submit) -> list[EngineEvent]:
    events: list[EngineEvent] = []
    for request in requests:
        scheduler.handle(request)
    while (plan := scheduler.plan_next_batch()) is not None:
        scheduler.commit(plan, backend.decode(plan), backend.logits)
        scheduler.check_invariants()
        events += scheduler.take_events()
    return events + list(scheduler.take_events())


def told(events: list[EngineEvent], key: object) -> tuple[list[int], list[LogprobPlace]]:
    """The answer, and all places in the order in which they came."""
    answer: list[int] = []
    places: list[LogprobPlace] = []
    for event in events:
        if isinstance(event, PromptLogprobs) and event.key == key:
            places += event.places
        elif isinstance(event, TokensCommitted) and event.key == key and event.logprobs is not None:
            answer += event.token_ids
            places.append(event.logprobs)
    return answer, places


def direct(laboratory: Laboratory, tokens: list[int]) -> list[np.ndarray]:
    """Log-softmax in float64 after each token, one token at a time in a context of its own."""
    backend = laboratory.backend()
    rows = []
    for position, token in enumerate(tokens):
        plan = BatchPlan((PlannedRun(0, (token,), position, True),))
        assert backend.decode(plan) is DecodeOutcome.DECODED
        row = backend.logits(0).astype(np.float64)
        row -= row.max()
        rows.append(row - np.log(np.exp(row).sum()))
    backend.close()
    return rows


@pytest.mark.parametrize("start", [None, 0, 1, 40])
def test_prompt_and_answer_have_the_logprobs_of_a_direct_evaluation(laboratory: Laboratory, start: int | None) -> None:
    prompt = prompt_of(5, 90)
    wanted = LogprobsWanted(top_count=3, token_ids=(ASKED,), prompt_start=start)
    backend = laboratory.backend(batch=128, slots=1)  # few sequence ids: rows with logits are more than these
    laboratory.use_samplers(RecordingSampler(), RecordingSampler())
    scheduler = laboratory.scheduler(backend, slots=1, chunk=64)
    run(backend, scheduler, Submit("warm", tuple(prompt), 1, SamplingParameters(), 1, 1))
    events = run(backend, scheduler, Submit("k", tuple(prompt), 6, SamplingParameters(), 1, 2, logprobs=wanted))
    answer, places = told(events, "k")
    first = len(prompt) if start is None else start
    assert [place.token.token_id for place in places] == [*prompt, *answer][first:]
    rows = direct(laboratory, [*prompt, *answer])
    for index, place in enumerate(places, first):
        if index == 0:
            assert (place.token.logprob, place.top, place.asked) == (None, (), ())
            continue
        row = rows[index - 1]
        for entry in (place.token, *place.top, *place.asked):
            assert entry.logprob == pytest.approx(row[entry.token_id], abs=TOLERANCE)
        assert [entry.logprob for entry in place.top] == pytest.approx(sorted(row)[:-4:-1], abs=TOLERANCE)
        assert [entry.token_id for entry in place.asked] == [ASKED]
    (end,) = [event for event in events if isinstance(event, MemberEnded)]
    assert end.usage.cached_prompt_tokens == min(len(prompt) - 1, max(0, first - 1))
    backend.close()
