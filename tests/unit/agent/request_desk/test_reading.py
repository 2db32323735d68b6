"""Prompts and constraints are read on threads of their own: nobody else waits for them, nor falls with them."""

import asyncio
import threading

from agent.core.commands import Submit
from shared.failures import FailureKind
from shared.generation import FinishReason
from shared.generation_options import StopOptions
from shared.messages_from_agent import Accepted, Refused
from shared.messages_to_agent import Cancel, ConstraintText
from tests.support.desk_driver import DeskDriver

GRAMMAR = ConstraintText(kind="gbnf", text='root ::= "a"')


async def test_reading_a_prompt_does_not_block_the_loop(driver: DeskDriver) -> None:
    """C24: the tokenizer runs where it is told to, not on the event loop."""
    seen: list[int] = []
    driver.worker.holds = True
    await driver.start(1)
    (job,) = driver.worker.held

    def work() -> None:
        seen.append(threading.get_ident())
        job()

    thread = threading.Thread(target=work)
    thread.start()
    await asyncio.to_thread(thread.join)
    await driver.settle()
    assert seen != [threading.get_ident()]
    assert driver.to(1) == [Accepted(member=1, attempt=0, prompt_tokens=5)]


async def test_a_bug_while_a_prompt_is_read_fails_that_member_only(driver: DeskDriver) -> None:
    driver.model.reader.error = ZeroDivisionError("a bug")
    await driver.start(1)
    (refused,) = driver.to(1)
    assert isinstance(refused, Refused)
    assert refused.kind is FailureKind.INTERNAL
    driver.model.reader.error = None
    await driver.start(2)
    assert driver.to(1)[-1] == Accepted(member=2, attempt=0, prompt_tokens=5)


async def test_a_constraint_goes_to_the_engine_with_its_request(driver: DeskDriver) -> None:
    await driver.start(1, constraint=GRAMMAR)
    await driver.start(2)
    constrained, free = driver.model.commands
    assert isinstance(constrained, Submit)
    assert isinstance(free, Submit)
    assert driver.model.constraints.asked == [GRAMMAR]
    assert constrained.constraint is not None
    assert free.constraint is None


async def test_a_bad_constraint_is_refused_before_the_request_is_accepted(driver: DeskDriver) -> None:
    await driver.start(1, constraint=ConstraintText(kind="gbnf", text="bad"))
    (refused,) = driver.to(1)
    assert isinstance(refused, Refused)
    assert (refused.kind, refused.parameter) == (FailureKind.GRAMMAR_INITIALIZATION, "grammar")
    assert driver.slots == [1, 0]
    assert driver.model.commands == []


async def test_a_bad_constraint_is_refused_also_when_nothing_is_to_be_generated(driver: DeskDriver) -> None:
    await driver.start(1, constraint=ConstraintText(kind="gbnf", text="bad"), max_tokens=0)
    (refused,) = driver.to(1)
    assert isinstance(refused, Refused)


async def test_a_bad_prompt_is_refused_whatever_its_constraint(driver: DeskDriver) -> None:
    await driver.start(1, prompt="", constraint=GRAMMAR)
    (refused,) = driver.to(1)
    assert isinstance(refused, Refused)
    assert refused.kind is FailureKind.EMPTY_PROMPT


async def test_a_long_compile_keeps_its_own_request_waiting_and_no_other(driver: DeskDriver) -> None:
    driver.compiler.holds = True
    await driver.start(1, constraint=GRAMMAR)
    await driver.start(2)
    assert driver.to(1) == [Accepted(member=2, attempt=0, prompt_tokens=5)]
    driver.compiler.release()
    await driver.settle()
    assert driver.to(1)[1:] == [Accepted(member=1, attempt=0, prompt_tokens=5)]


async def test_a_client_that_leaves_during_the_compile_ends_at_once(driver: DeskDriver) -> None:
    driver.compiler.holds = True
    await driver.start(1, constraint=GRAMMAR)
    driver.desk.cancel(1, Cancel(member=1, attempt=0))
    await driver.settle()
    (end,) = driver.ends()
    assert end.finish_reason is FinishReason.CANCELLED
    driver.compiler.release()
    await driver.settle()
    assert (driver.compiler.cancelled, driver.model.commands) == (1, [])


async def test_a_bug_while_a_constraint_is_compiled_fails_that_member_only(driver: DeskDriver) -> None:
    driver.model.constraints.error = ZeroDivisionError("a bug")
    await driver.start(1, constraint=GRAMMAR)
    (refused,) = driver.to(1)
    assert isinstance(refused, Refused)
    assert refused.kind is FailureKind.INTERNAL
    await driver.start(2)
    assert driver.to(1)[-1] == Accepted(member=2, attempt=0, prompt_tokens=5)


async def test_regexes_are_compiled_where_constraints_are(driver: DeskDriver) -> None:
    driver.compiler.holds = True
    await driver.start(1, stop=StopOptions(regexes=["a"]))
    assert driver.model.commands == []
    driver.compiler.release()
    await driver.settle()
    assert len(driver.model.commands) == 1
