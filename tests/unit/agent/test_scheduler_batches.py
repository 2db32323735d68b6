"""Which rows go into a step, and how members share prompts and cells."""

from agent.core.events import TokensCommitted
from agent.core.scheduler import SIGN_OF_LIFE_STEPS
from shared.generation import FinishReason
from tests.support.engine_driver import EngineDriver
from tests.support.scripted_backend import (
    prompt_with_answer,
    scripted_backend,
)


def driver_for(
    cells: int = 300, batch: int = 16, slots: int = 3, chunk: int = 8, request_limit: int | None = None
) -> EngineDriver:
    return EngineDriver(scripted_backend(cells, batch, slots, request_limit), slots, chunk)


def rows_by_length(driver: EngineDriver) -> list[list[int]]:
    """Lengths of the runs of each plan."""
    return [[len(run.tokens) for run in plan.runs] for plan in driver.backend.plans]


# Batches


def test_generating_members_come_first_and_prompts_fill_what_is_left_of_the_step() -> None:
    driver = driver_for(batch=8, chunk=8)
    driver.submit("a", prompt_with_answer(4, 20), 20)
    driver.step()
    driver.submit("b", prompt_with_answer(14, 20, salt=2), 20)
    for _ in range(3):
        driver.step()
    assert rows_by_length(driver)[1:] == [[1, 7], [1, 7], [1, 1]]


def test_prompts_are_split_at_the_chunk_size_and_nowhere_else() -> None:
    driver = driver_for(batch=64, chunk=8)
    driver.submit("a", prompt_with_answer(20, 1), 1)
    driver.submit("b", prompt_with_answer(5, 1, salt=2), 1)
    driver.run()
    assert rows_by_length(driver) == [[8], [8], [4], [5]]


def test_short_prompts_share_a_step() -> None:
    driver = driver_for(batch=64, chunk=8)
    for key in range(3):
        driver.submit(key, prompt_with_answer(3, 1, salt=key), 1)
    driver.run()
    assert rows_by_length(driver) == [[3, 3], [3]]


def test_members_take_turns_when_the_batch_is_too_small_for_all() -> None:
    driver = driver_for(batch=1, slots=4)
    for key in range(4):
        driver.submit(key, prompt_with_answer(1, 10, salt=key), 10)
    for _ in range(4 * 5):
        driver.step()
    assert [len(driver.answer(key)) for key in range(4)] == [5, 5, 5, 5]


def test_a_batch_of_one_still_gets_on_with_a_prompt_while_another_generates() -> None:
    driver = driver_for(batch=1, slots=2)
    driver.submit("a", prompt_with_answer(1, 60), 60)
    driver.step()
    driver.submit("b", prompt_with_answer(10, 5, salt=4), 5)
    for _ in range(24):
        driver.step()
    assert driver.answer("b")
    assert len(driver.answer("a")) >= 10


def test_no_step_asks_for_more_than_32_rows_of_logits_and_nobody_starves() -> None:
    driver = driver_for(cells=2000, batch=128, slots=50, chunk=64)
    for key in range(50):
        driver.submit(key, prompt_with_answer(2, 6, salt=key), 6)
    driver.run()
    for key in range(50):
        driver.assert_exact(key)
    assert max(sum(run.wants_logits for run in plan.runs) for plan in driver.backend.plans) == 32


def test_members_beyond_the_slots_wait_and_larger_priority_goes_first() -> None:
    driver = driver_for(slots=1)
    driver.submit("running", [1, 2], 3)
    driver.step()
    driver.submit("low", [3, 4], 3, priority=-1)
    driver.submit("early", [5, 6], 3)
    driver.submit("late", [7, 8], 3)
    driver.submit("high", [9, 8], 3, priority=5)
    driver.run()
    begun = [one.key for one in driver.events if isinstance(one, TokensCommitted) and not one.first_token_index]
    assert begun == ["running", "high", "early", "late", "low"]


# Shared prompts


def test_a_prompt_that_was_evaluated_before_is_reused_up_to_its_last_token() -> None:
    driver = driver_for()
    prompt = prompt_with_answer(20, 3)
    driver.submit("cold", prompt, 3)
    driver.run()
    driver.submit("warm", prompt, 3)
    driver.run()
    driver.assert_exact("warm")
    assert driver.end("cold").usage.cached_prompt_tokens == 0
    assert driver.end("warm").usage.cached_prompt_tokens == 19
    assert driver.scheduler.statistics().reused_prompt_tokens == 19


def test_an_answer_is_reused_by_the_next_turn_of_its_conversation() -> None:
    driver = driver_for()
    prompt = prompt_with_answer(10, 6)
    driver.submit("first", prompt, 6)
    driver.run()
    driver.submit("next", [*prompt, *driver.answer("first"), 3, 4], 3)
    driver.run()
    driver.assert_exact("next")
    assert driver.end("next").usage.cached_prompt_tokens == 15  # the last token of the answer was never evaluated


def test_a_shared_prompt_is_evaluated_once_though_all_arrive_together() -> None:
    driver = driver_for(slots=3)
    prompt = prompt_with_answer(40, 4)
    for key in range(3):
        driver.submit(key, [*prompt, 5 + key], 4)
    driver.run()
    for key in range(3):
        driver.assert_exact(key)
    assert driver.scheduler.statistics().evaluated_prompt_tokens == 41 + 2
    assert [driver.end(key).usage.cached_prompt_tokens for key in range(3)] == [0, 40, 40]


def test_who_waits_for_a_shared_prompt_takes_over_when_its_owner_leaves() -> None:
    driver = driver_for(slots=3)
    prompt = prompt_with_answer(40, 4)
    for key in range(3):
        driver.submit(key, [*prompt, 5 + key], 4)
    for _ in range(3):
        driver.step()
    driver.cancel(0)
    driver.run()
    for key in range(3):
        driver.assert_exact(key)
    assert driver.scheduler.statistics().evaluated_prompt_tokens == 24 + 17 + 1
    assert driver.end(1).usage.cached_prompt_tokens == 24


def test_a_short_common_beginning_is_not_worth_a_wait() -> None:
    driver = driver_for(batch=64, chunk=32)
    for key in range(2):
        driver.submit(key, [1, 2, 3, 4, 10 + key], 1)
    driver.run()
    assert rows_by_length(driver) == [[5, 5]]


# Cells run out


def test_idle_prefixes_are_evicted_before_anybody_is_set_aside() -> None:
    driver = driver_for(cells=40, slots=2)
    driver.submit("old", prompt_with_answer(20, 2), 2)
    driver.run()
    driver.submit("new", prompt_with_answer(30, 5, salt=2), 5)
    driver.run()
    driver.assert_exact("new")
    assert driver.scheduler.statistics().evicted_tokens == 21
    assert driver.scheduler.statistics().set_aside_total == 0


def test_the_youngest_is_set_aside_and_finishes_with_the_same_answer() -> None:
    driver = driver_for(cells=60, slots=2)
    for key in ("old", "young"):
        driver.submit(key, prompt_with_answer(20, 30, salt=len(key)), 30)
    seen = []
    while driver.scheduler.has_work:
        driver.step()
        seen.append(driver.scheduler.statistics().set_aside)
    assert max(seen) == 1
    assert driver.scheduler.statistics().set_aside_total == 1
    for key in ("old", "young"):
        driver.assert_exact(key)
    assert len(driver.answer("young")) == 30
    assert driver.end("young").usage.cached_prompt_tokens == 0  # being evaluated again is no saving


def test_a_member_that_was_set_aside_goes_before_those_that_wait() -> None:
    driver = driver_for(cells=60, slots=3)
    for key in ("old", "young"):
        driver.submit(key, prompt_with_answer(20, 30, salt=len(key)), 30)
    while not driver.scheduler.statistics().set_aside:
        driver.step()
    driver.submit("tiny", [3, 4], 1)
    driver.run()
    ends = [one.key for one in driver.events if hasattr(one, "usage")]
    assert ends.index("old") < ends.index("tiny")
    driver.assert_exact("tiny")


def test_set_aside_members_show_signs_of_life() -> None:
    driver = driver_for(cells=80, slots=2)
    for key in ("a", "b"):
        driver.submit(key, prompt_with_answer(20, 50, salt=ord(key)), 50)
    while not driver.scheduler.statistics().set_aside:
        driver.step()
    before = len(driver.progress("b"))
    for _ in range(SIGN_OF_LIFE_STEPS):
        driver.step()
    assert driver.scheduler.statistics().set_aside == 1
    assert len(driver.progress("b")) == before + 1


def test_alone_at_the_end_of_the_pool_an_answer_ends_with_length() -> None:
    driver = driver_for(cells=24, request_limit=100)
    driver.submit("a", prompt_with_answer(20, 50), 50)
    driver.run()
    assert driver.end("a").finish_reason is FinishReason.LENGTH
    assert driver.answer("a") == driver.expected("a")[:5]
