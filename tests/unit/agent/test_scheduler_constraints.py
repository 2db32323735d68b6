"""Constrained members: masks, forced runs, their ends, and their neighbours."""

import pytest

from agent.core.events import TokensCommitted
from agent.core.stopping import MOST_FORCED_TOKENS
from shared.failures import FailureKind
from shared.generation import FinishReason
from tests.support.engine_driver import EngineDriver
from tests.support.scripted_backend import END_TOKEN, GreedySampler, prompt_with_answer, scripted_backend
from tests.support.scripted_constraint import ConstraintScript, ScriptedMatcher, expected_constrained

PROMPT = [5, 6, 7, 8]
FORCED = 10  # of 10 places: nothing is ever sampled


def driver_for(cells: int = 400, batch: int = 32, slots: int = 3, chunk: int = 8) -> EngineDriver:
    return EngineDriver(scripted_backend(cells, batch, slots), slots, chunk)


def ran(script: ConstraintScript, max_tokens: int = 50, **shape: int) -> EngineDriver:
    driver = driver_for(**shape)
    driver.submit("a", PROMPT, max_tokens, script=script)
    driver.run()
    driver.assert_exact("a")
    return driver


def runs_of(driver: EngineDriver) -> list[int]:
    return [len(run.tokens) for plan in driver.backend.plans for run in plan.runs]


def samplers_of(driver: EngineDriver) -> list[GreedySampler]:
    made: list[GreedySampler] = []

    def new(*_: object) -> GreedySampler:
        made.append(GreedySampler())
        return made[-1]

    driver.backend.new_sampler_for = new
    return made


# Ends


def test_a_finished_constraint_ends_at_once_with_stop() -> None:
    driver = ran(ConstraintScript(salt=1, length=6, forced_share=0))
    assert driver.end("a").finish_reason is FinishReason.STOP
    assert len(driver.answer("a")) == 6
    assert runs_of(driver) == [4, 1, 1, 1, 1, 1]  # six tokens, the last one never evaluated


def test_the_last_possible_token_of_a_whole_output_is_a_stop_not_a_cut() -> None:
    assert ran(ConstraintScript(length=6), max_tokens=6).end("a").finish_reason is FinishReason.STOP
    cut = ran(ConstraintScript(length=7), max_tokens=6)
    assert cut.end("a").finish_reason is FinishReason.LENGTH
    assert cut.end("a").usage.content_tokens == 6


def test_the_model_may_end_only_where_the_mask_allows_it() -> None:
    script = ConstraintScript(salt=4, length=40, forced_share=0, may_end_early=True)
    driver = ran(script)
    answer = driver.answer("a")
    assert driver.end("a").finish_reason is FinishReason.STOP
    assert len(answer) < 40
    assert END_TOKEN in script.allowed(answer)


@pytest.mark.parametrize("forced_share", [0, 5, FORCED])
@pytest.mark.parametrize("breaks_at", [0, 3])
def test_a_constraint_that_breaks_is_a_failure_and_never_a_stop(forced_share: int, breaks_at: int) -> None:
    driver = ran(ConstraintScript(salt=2, length=9, forced_share=forced_share, breaks_at=breaks_at))
    failure = driver.end("a").failure
    assert failure is not None
    assert failure.kind is FailureKind.GRAMMAR_REJECTED_OUTPUT
    assert failure.parameter == "grammar"


def test_a_mask_that_leaves_nothing_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ConstraintScript, "allowed", lambda *_: frozenset())
    driver = driver_for()
    driver.submit("a", PROMPT, script=ConstraintScript())
    driver.run()
    failure = driver.end("a").failure
    assert failure is not None
    assert failure.kind is FailureKind.GRAMMAR_REJECTED_OUTPUT


# Forced tokens


def test_forced_tokens_are_observed_counted_and_reported_like_any_other() -> None:
    driver = driver_for()
    samplers, script = samplers_of(driver), ConstraintScript(salt=7, length=20, forced_share=7)
    driver.submit("a", PROMPT, 50, script=script)
    driver.run()
    driver.assert_exact("a")
    answer = driver.answer("a")
    events = [one for one in driver.events if isinstance(one, TokensCommitted)]
    assert len(answer) == driver.end("a").usage.content_tokens == 20
    assert [one.token_ids for one in events] == [(token,) for token in answer]  # one document for each
    assert samplers[0].observed == [*PROMPT, *answer]
    assert samplers[0].draws == [place for place in range(20) if len(script.allowed(answer[:place])) > 1]
    assert driver.scheduler.statistics().generated_tokens == 20
    assert driver.scheduler.statistics().forced_tokens == 20 - len(samplers[0].draws) > 0
    assert driver.scheduler.statistics().evaluated_prompt_tokens == len(PROMPT)


def test_an_output_with_one_form_needs_no_decode_at_all() -> None:
    driver = ran(ConstraintScript(length=6, forced_share=FORCED))
    assert driver.backend.plans == []
    assert driver.end("a").finish_reason is FinishReason.STOP
    assert len(driver.answer("a")) == 6


def test_an_empty_output_ends_with_stop_and_no_token() -> None:
    driver = ran(ConstraintScript(length=0))
    assert driver.end("a").finish_reason is FinishReason.STOP
    assert driver.answer("a") == ()


def beginning_with_forced(least: int, *, then: int = 12) -> ConstraintScript:
    """A script whose first `least` places, at least, are forced and which samples later on."""
    for salt in range(5000):
        script = ConstraintScript(salt, length=then, forced_share=6)
        begun = script.matcher()
        if least <= len(begun.take_forced(99)) < then - 2:
            return script
    raise AssertionError("no such script")


def test_what_is_forced_first_is_evaluated_with_the_prompt_and_is_no_part_of_it() -> None:
    script = beginning_with_forced(3)
    first = len(script.matcher().take_forced(99))
    driver = ran(script)
    assert runs_of(driver)[0] == min(8, len(PROMPT) + first)
    assert driver.end("a").usage.prompt_tokens == len(PROMPT)
    assert driver.scheduler.statistics().evaluated_prompt_tokens == len(PROMPT)
    driver.submit("again", PROMPT, 50, script=script)
    driver.run()
    driver.assert_exact("again")
    assert driver.end("again").usage.cached_prompt_tokens == len(PROMPT)


def test_a_member_that_leaves_before_its_prompt_is_done_has_no_tokens() -> None:
    driver = driver_for(chunk=2)
    driver.submit("a", PROMPT, script=beginning_with_forced(2))
    driver.step()
    driver.cancel("a")
    driver.run()
    assert driver.answer("a") == ()
    assert driver.end("a").usage.content_tokens == 0


def test_a_forced_run_stops_at_max_tokens() -> None:
    driver = ran(ConstraintScript(length=40, forced_share=FORCED), max_tokens=7)
    assert driver.end("a").finish_reason is FinishReason.LENGTH
    assert len(driver.answer("a")) == 7


def test_a_huge_forced_run_is_taken_and_evaluated_in_pieces() -> None:
    length = 2 * MOST_FORCED_TOKENS + 9
    driver = driver_for(cells=700, chunk=16)
    driver.submit("a", PROMPT, 1000, script=ConstraintScript(length=length, forced_share=FORCED))
    matcher = driver.submitted["a"].constraint
    assert isinstance(matcher, ScriptedMatcher)
    assert len(matcher.accepted) == MOST_FORCED_TOKENS
    driver.run()
    driver.assert_exact("a")
    assert len(driver.answer("a")) == length
    assert max(runs_of(driver)) == 16


def test_forced_runs_go_first_in_pieces_and_do_not_starve_anybody() -> None:
    driver = driver_for(slots=3, batch=16, chunk=8)
    driver.submit("free", prompt_with_answer(4, 40), 40)
    driver.step()
    driver.submit("forced", PROMPT, 200, script=ConstraintScript(5, length=150, forced_share=9))
    driver.submit("prompt", prompt_with_answer(40, 3, salt=2), 3)
    while not driver.has_ended("prompt"):
        plan_count = len(driver.backend.plans)
        driver.step()
        assert len(driver.backend.plans) == plan_count + 1
    assert not driver.has_ended("free")
    assert len(driver.answer("free")) >= len(driver.backend.plans) - 1  # it had its token in each step
    driver.run()
    for key in driver.submitted:
        driver.assert_exact(key)


# Cells, sign of life, neighbours


def test_a_constrained_member_that_is_set_aside_keeps_its_place_in_the_constraint() -> None:
    driver = driver_for(cells=60, slots=2)
    driver.submit("old", prompt_with_answer(20, 30), 30)
    driver.submit("young", prompt_with_answer(20, 2, salt=3), 60, script=ConstraintScript(3, 30, 4))
    driver.run()
    for key in driver.submitted:
        driver.assert_exact(key)
    assert driver.scheduler.statistics().set_aside_total
    assert len(driver.answer("young")) == 30


def test_free_members_answer_as_if_nobody_beside_them_was_constrained() -> None:
    driver = driver_for(slots=4, chunk=4)
    for key in range(12):
        script = ConstraintScript(key, length=15, forced_share=6) if key % 2 else None
        driver.submit(key, prompt_with_answer(5 + key, 12, salt=key), 12, script=script)
    for step in range(40):
        driver.step()
        if step % 3 == 0:
            driver.cancel(step // 3)
    driver.run()
    for submitted in driver.submitted:
        driver.assert_exact(submitted)


def test_the_mask_comes_before_the_draw_and_forced_tokens_after_it() -> None:
    script = ConstraintScript(salt=1, length=2, forced_share=0)
    driver = ran(script)
    matcher = driver.submitted["a"].constraint
    assert isinstance(matcher, ScriptedMatcher)
    assert matcher.calls == ["take_forced", "mask", "accept", "take_forced", "mask", "accept"]


def test_the_reference_can_tell_wrong_answers() -> None:
    script = ConstraintScript(salt=1, length=8, forced_share=3)
    answers = {expected_constrained([5, 6, 7, last], script, 50, 400)[0] for last in range(1, 9)}
    assert len(answers) > 1
