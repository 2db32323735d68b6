"""How members end, leave and are told about; the oracle of all of it is the run alone."""

import pytest

from agent.core.backend import PlannedRun
from agent.core.commands import CancelAll
from shared.failures import Failure, FailureKind
from shared.generation import FinishReason, SamplingParameters, Usage
from tests.support.engine_driver import EngineDriver
from tests.support.scripted_backend import (
    VOCABULARY_SIZE,
    GreedySampler,
    ScriptedVocabulary,
    expected_answer,
    prompt_with_answer,
    scripted_backend,
)


def driver_for(
    cells: int = 300, batch: int = 16, slots: int = 3, chunk: int = 8, request_limit: int | None = None
) -> EngineDriver:
    return EngineDriver(scripted_backend(cells, batch, slots, request_limit), slots, chunk)


# Ends


def test_an_answer_ends_with_length_after_max_tokens() -> None:
    driver = driver_for()
    driver.submit("a", prompt_with_answer(5, 9), 9)
    driver.run()
    driver.assert_exact("a")
    assert driver.end("a").finish_reason is FinishReason.LENGTH
    assert driver.end("a").usage == Usage(prompt_tokens=5, content_tokens=9)


def test_the_end_token_ends_with_stop_and_is_neither_sent_nor_counted() -> None:
    prompt = next(
        [first, second]
        for first in range(1, 90)
        for second in range(1, 90)
        if 2 <= len(expected_answer([first, second], 50, 1000)) < 10
    )
    driver = driver_for()
    driver.submit("a", prompt, 50)
    driver.run()
    driver.assert_exact("a")
    assert driver.end("a").finish_reason is FinishReason.STOP
    assert driver.scheduler.statistics().generated_tokens == len(driver.answer("a"))


def test_an_answer_ends_with_length_at_the_request_limit() -> None:
    driver = driver_for(request_limit=20)
    driver.submit("a", prompt_with_answer(15, 40), 40)
    driver.run()
    driver.assert_exact("a")
    assert len(driver.answer("a")) == 5


def test_the_longest_prompt_that_fits_brings_one_token() -> None:
    driver = driver_for(cells=20)
    driver.submit("a", prompt_with_answer(19, 40), 40)
    driver.run()
    assert len(driver.answer("a")) == 1
    assert driver.end("a").finish_reason is FinishReason.LENGTH


@pytest.mark.parametrize(
    ("prompt", "kind"),
    [
        ([], FailureKind.EMPTY_PROMPT),
        ([1] * 20, FailureKind.PROMPT_TOO_LONG),
        ([1, VOCABULARY_SIZE], FailureKind.INVALID_REQUEST),
        ([1, -1], FailureKind.INVALID_REQUEST),
    ],
)
def test_a_request_that_can_never_run_is_refused_and_stops_nobody(prompt: list[int], kind: FailureKind) -> None:
    driver = driver_for(cells=20)
    driver.submit("good", [1, 2], 3)
    driver.submit("bad", prompt)
    driver.run()
    failure = driver.end("bad").failure
    assert failure is not None
    assert failure.kind is kind
    driver.assert_exact("good")


class StubbornSampler(GreedySampler):
    """Finds what it is told to find."""

    def __init__(self, token: int | None) -> None:
        super().__init__()
        self.token = token

    def sample(self, logits: int, answer_index: int) -> int | None:
        return self.token


@pytest.mark.parametrize(
    ("token", "kind"), [(None, FailureKind.SAMPLER_FAILED), (VOCABULARY_SIZE, FailureKind.ENGINE_FAILED)]
)
def test_a_sampler_that_fails_ends_its_own_request_only(token: int | None, kind: FailureKind) -> None:
    driver = driver_for()
    samplers = iter([StubbornSampler(token), GreedySampler()])
    driver.backend.new_sampler_for = lambda parameters, seed: next(samplers)
    driver.submit("bad", [4, 5])
    driver.submit("good", [6, 7], 4)
    driver.run()
    failure = driver.end("bad").failure
    assert failure is not None
    assert failure.kind is kind
    driver.assert_exact("good")
    assert driver.scheduler.statistics().cached_tokens == len(driver.answer("good")) + 1  # nothing of the bad one


def test_text_is_the_whole_characters_of_the_tokens() -> None:
    driver = driver_for()
    driver.submit("a", prompt_with_answer(6, 60), 60)
    driver.run()
    pieces = b"".join(ScriptedVocabulary().token_piece(token) for token in driver.answer("a"))
    assert len(driver.answer("a")) == 60
    assert driver.text("a") == pieces.decode("utf-8", "replace")


def test_the_sampler_sees_prompt_and_answer_in_order_and_draws_each_index_once() -> None:
    driver = driver_for(cells=70, slots=2)
    samplers: list[GreedySampler] = []

    def new_sampler(parameters: SamplingParameters, seed: int) -> GreedySampler:
        samplers.append(GreedySampler())
        return samplers[-1]

    driver.backend.new_sampler_for = new_sampler
    prompts = [prompt_with_answer(20, 30, salt) for salt in (1, 2)]
    for key, prompt in enumerate(prompts):
        driver.submit(key, prompt, 30)
    driver.run()
    assert driver.scheduler.statistics().set_aside_total  # so that one was evaluated twice
    for key, sampler in enumerate(samplers):
        assert sampler.observed == [*prompts[key], *driver.answer(key)]
        assert sampler.draws == list(range(30))


# Leaving


def test_cancelled_while_waiting_it_costs_nothing() -> None:
    driver = driver_for(slots=1)
    driver.submit("a", prompt_with_answer(5, 5), 5)
    driver.submit("b", [1, 2, 3])
    driver.step()
    driver.cancel("b")
    driver.run()
    assert driver.end("b").finish_reason is FinishReason.CANCELLED
    assert driver.end("b").usage == Usage(prompt_tokens=3)


def test_cancelled_between_two_chunks_of_its_prompt_it_ends_before_the_next_step() -> None:
    driver = driver_for()
    driver.submit("a", [2] * 50)
    driver.step()
    driver.cancel("a")
    assert driver.step() is None
    assert driver.end("a").usage == Usage(prompt_tokens=50)
    assert driver.progress("a") == [8]


def test_cancelled_while_generating_its_usage_is_exact() -> None:
    driver = driver_for()
    driver.submit("a", prompt_with_answer(5, 50), 50)
    for _ in range(4):
        driver.step()
    driver.cancel("a")
    driver.run()
    assert driver.end("a").usage == Usage(prompt_tokens=5, content_tokens=4)
    driver.assert_exact("a")


def test_cancelled_while_set_aside_it_ends_at_once() -> None:
    driver = driver_for(cells=60, slots=2)
    for key in ("a", "b"):
        driver.submit(key, prompt_with_answer(20, 30, salt=ord(key)), 30)
    while not driver.scheduler.statistics().set_aside:
        driver.step()
    generated = len(driver.answer("b"))
    driver.cancel("b")
    driver.run()
    assert driver.end("b").usage == Usage(prompt_tokens=20, content_tokens=generated)
    driver.assert_exact("a")


def test_cancelling_what_is_not_open_does_nothing() -> None:
    driver = driver_for()
    driver.cancel("nobody")
    assert driver.step() is None
    assert driver.events == []


def test_all_can_be_ended_with_one_failure() -> None:
    driver = driver_for(slots=1)
    driver.submit("a", [1, 2])
    driver.step()
    driver.submit("b", [1, 2])
    failure = Failure(FailureKind.SHUTTING_DOWN, "The agent stops.")
    driver.scheduler.handle(CancelAll(failure))
    assert driver.step() is None
    assert [driver.end(key).failure for key in ("a", "b")] == [failure, failure]


def test_a_key_that_is_open_cannot_be_opened_again() -> None:
    driver = driver_for()
    driver.submit("a", [1, 2])
    with pytest.raises(ValueError):
        driver.submit("a", [1, 2])


# Figures


def test_repr_is_a_line_for_a_dashboard() -> None:
    driver = driver_for(cells=100, slots=1)
    driver.submit("a", prompt_with_answer(3, 5), 5)
    driver.submit("b", [1, 2, 3])
    driver.step()
    assert repr(driver.scheduler) == "<Scheduler 1 running, 1 waiting | 3/100 cells>"


def test_the_check_notices_cells_that_are_not_where_they_should_be() -> None:
    driver = driver_for()
    driver.submit("a", prompt_with_answer(3, 5), 5)
    driver.step()
    driver.backend.remove_from(0, 1)
    with pytest.raises(AssertionError):
        driver.scheduler.check_invariants()


def test_plans_are_data() -> None:
    driver = driver_for()
    driver.submit("a", [4, 5, 6])
    plan = driver.scheduler.plan_next_batch()
    assert plan is not None
    assert plan.runs == (PlannedRun(0, (4, 5, 6), 0, True),)
