"""Every request is answered once and ends once, and a slot is a request in flight, no more and no less."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from typing import Any

import pytest

from agent.core.backend import LogprobsWanted
from agent.core.commands import Cancel as CancelInEngine
from agent.core.commands import Submit
from agent.core.events import MemberEnded, PromptProgress, TokensCommitted
from agent.core.request_sampling import RequestSampling
from agent.request_desk import MemberKey, Readers, RequestDesk, Service
from shared.failures import Failure, FailureKind
from shared.generation import Channel, FinishReason, SamplingParameters, Usage
from shared.generation_options import LogprobOptions, SamplingOptions, StopOptions
from shared.messages_from_agent import Accepted, Busy, MemberEnd, MessageFromAgent, Refused, TokenFrame
from shared.messages_to_agent import Cancel, ConstraintText, Generate
from tests.support.fake_model import FakeModel, step_report

SAMPLING = SamplingParameters(temperature=0.5)


class Worker(Executor):
    """Runs jobs at once, or keeps them until the test says so."""

    def __init__(self) -> None:
        self.holds = False
        self.held: list[Callable[[], None]] = []
        self.cancelled = 0

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> "Future[Any]":
        future: Future[Any] = Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                self.cancelled += 1
                return
            try:
                future.set_result(function(*arguments, **named))
            except BaseException as error:
                future.set_exception(error)

        if self.holds:
            self.held.append(run)
        else:
            run()
        return future

    def release(self) -> None:
        held, self.held = self.held, []
        for run in held:
            run()


@dataclass
class Bench:
    """A desk with two slots, and everything around it in view."""

    desk: RequestDesk
    worker: Worker
    compiler: Worker
    model: FakeModel
    sent: list[tuple[int, MessageFromAgent]] = field(default_factory=list)
    slots: list[int] = field(default_factory=list)

    def send(self, link: int, message: MessageFromAgent) -> None:
        self.sent.append((link, message))

    def to(self, link: int) -> list[MessageFromAgent]:
        return [message for number, message in self.sent if number == link]

    def ends(self) -> list[MemberEnd]:
        return [end for _, message in self.sent if isinstance(message, TokenFrame) for end in message.ends]

    async def settle(self) -> None:
        """Let tasks that can go on go on."""
        for _ in range(8):
            await asyncio.sleep(0)

    async def start(self, member: int, link: int = 1, prompt: str = "hello", **fields: Any) -> MemberKey:
        self.desk.generate(link, request(member, prompt, **fields))
        await self.settle()
        return MemberKey(link, member, 0)


def request(member: int, prompt: str = "hello", **fields: Any) -> Generate:
    given: dict[str, Any] = {"raw_prompt": prompt, "max_tokens": 5, "seed": 9, "attempt": 0, **fields}
    return Generate(member=member, request_id=f"r{member}", **given)


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    worker, compiler, model = Worker(), Worker(), FakeModel()
    async with asyncio.TaskGroup() as tasks:
        box: list[Bench] = []

        class Outlet:
            def send(self, link: int, message: MessageFromAgent) -> None:
                box[0].send(link, message)

        readers = Readers(worker, compiler)
        desk = RequestDesk(2, Outlet(), readers, tasks, lambda count: box[0].slots.append(count))
        box.append(Bench(desk, worker, compiler, model))
        desk.use(Service(model, SAMPLING))
        desk.set_open(True)
        yield box[0]
        desk.end_all(Failure(FailureKind.SHUTTING_DOWN, "the test ends"))
        members = [
            (link, end.member, end.attempt) for link, m in box[0].sent if isinstance(m, TokenFrame) for end in m.ends
        ]
        assert len(members) == len(set(members)), "a member ended twice"
        assert desk.slots_in_use == 0


async def test_a_request_is_accepted_with_its_length_and_goes_to_the_engine(bench: Bench) -> None:
    key = await bench.start(1, priority=3)
    assert bench.to(1) == [Accepted(member=1, attempt=0, prompt_tokens=5)]
    (command,) = bench.model.commands
    assert isinstance(command, Submit)
    assert (command.key, len(command.prompt), command.max_tokens) == (key, 5, 5)
    assert (command.sampling, command.seed, command.priority) == (SAMPLING, 9, 3)
    assert bench.slots == [1]


async def test_arrival_numbers_follow_arrival_not_preparation(bench: Bench) -> None:
    bench.worker.holds = True
    bench.desk.generate(1, request(1))
    bench.desk.generate(2, request(1))
    await bench.settle()
    bench.worker.held.reverse()
    bench.worker.release()
    await bench.settle()
    arrivals = {c.key: c.arrival for c in bench.model.commands if isinstance(c, Submit)}
    assert arrivals[MemberKey(1, 1, 0)] < arrivals[MemberKey(2, 1, 0)]


async def test_a_request_beyond_the_slots_is_told_busy(bench: Bench) -> None:
    await bench.start(1)
    await bench.start(2)
    await bench.start(3)
    assert bench.to(1)[-1] == Busy(member=3, attempt=0)
    assert bench.desk.slots_in_use == 2


async def test_a_slot_is_taken_while_the_prompt_is_read(bench: Bench) -> None:
    bench.worker.holds = True
    await bench.start(1)
    await bench.start(2)
    await bench.start(3)
    assert bench.desk.slots_in_use == 2
    assert bench.to(1) == [Busy(member=3, attempt=0)]


async def test_a_closed_desk_and_one_without_a_model_are_busy(bench: Bench) -> None:
    bench.desk.set_open(False)
    await bench.start(1)
    bench.desk.set_open(True)
    bench.desk.use(None)
    await bench.start(2)
    assert bench.to(1) == [Busy(member=1, attempt=0), Busy(member=2, attempt=0)]
    assert bench.slots == []


async def test_a_request_that_is_wrong_is_refused_and_gives_its_slot_back(bench: Bench) -> None:
    await bench.start(1, prompt="")
    (refused,) = bench.to(1)
    assert isinstance(refused, Refused)
    assert refused.kind is FailureKind.EMPTY_PROMPT
    assert bench.slots == [1, 0]
    assert bench.model.commands == []


GRAMMAR = ConstraintText(kind="gbnf", text='root ::= "a"')


async def test_a_constraint_goes_to_the_engine_with_its_request(bench: Bench) -> None:
    await bench.start(1, constraint=GRAMMAR)
    await bench.start(2)
    constrained, free = bench.model.commands
    assert isinstance(constrained, Submit)
    assert isinstance(free, Submit)
    assert bench.model.constraints.asked == [GRAMMAR]
    assert constrained.constraint is not None
    assert free.constraint is None


async def test_a_bad_constraint_is_refused_before_the_request_is_accepted(bench: Bench) -> None:
    await bench.start(1, constraint=ConstraintText(kind="gbnf", text="bad"))
    (refused,) = bench.to(1)
    assert isinstance(refused, Refused)
    assert (refused.kind, refused.parameter) == (FailureKind.GRAMMAR_INITIALIZATION, "grammar")
    assert bench.slots == [1, 0]
    assert bench.model.commands == []


async def test_a_bad_constraint_is_refused_also_when_nothing_is_to_be_generated(bench: Bench) -> None:
    await bench.start(1, constraint=ConstraintText(kind="gbnf", text="bad"), max_tokens=0)
    (refused,) = bench.to(1)
    assert isinstance(refused, Refused)


async def test_a_bad_prompt_is_refused_whatever_its_constraint(bench: Bench) -> None:
    await bench.start(1, prompt="", constraint=GRAMMAR)
    (refused,) = bench.to(1)
    assert isinstance(refused, Refused)
    assert refused.kind is FailureKind.EMPTY_PROMPT


async def test_a_long_compile_keeps_its_own_request_waiting_and_no_other(bench: Bench) -> None:
    bench.compiler.holds = True
    await bench.start(1, constraint=GRAMMAR)
    await bench.start(2)
    assert bench.to(1) == [Accepted(member=2, attempt=0, prompt_tokens=5)]
    bench.compiler.release()
    await bench.settle()
    assert bench.to(1)[1:] == [Accepted(member=1, attempt=0, prompt_tokens=5)]


async def test_a_client_that_leaves_during_the_compile_ends_at_once(bench: Bench) -> None:
    bench.compiler.holds = True
    await bench.start(1, constraint=GRAMMAR)
    bench.desk.cancel(1, Cancel(member=1, attempt=0))
    await bench.settle()
    (end,) = bench.ends()
    assert end.finish_reason is FinishReason.CANCELLED
    bench.compiler.release()
    await bench.settle()
    assert (bench.compiler.cancelled, bench.model.commands) == (1, [])


async def test_a_bug_while_a_constraint_is_compiled_fails_that_member_only(bench: Bench) -> None:
    bench.model.constraints.error = ZeroDivisionError("a bug")
    await bench.start(1, constraint=GRAMMAR)
    (refused,) = bench.to(1)
    assert isinstance(refused, Refused)
    assert refused.kind is FailureKind.INTERNAL
    await bench.start(2)
    assert bench.to(1)[-1] == Accepted(member=2, attempt=0, prompt_tokens=5)


async def test_a_bug_while_a_prompt_is_read_fails_that_member_only(bench: Bench) -> None:
    bench.model.reader.error = ZeroDivisionError("a bug")
    await bench.start(1)
    (refused,) = bench.to(1)
    assert isinstance(refused, Refused)
    assert refused.kind is FailureKind.INTERNAL
    bench.model.reader.error = None
    await bench.start(2)
    assert bench.to(1)[-1] == Accepted(member=2, attempt=0, prompt_tokens=5)


async def test_a_request_for_no_tokens_is_accepted_and_ends_at_once(bench: Bench) -> None:
    await bench.start(1, max_tokens=0)
    accepted, frame = bench.to(1)  # a frame for each piece of it: together they might be too large for one
    assert isinstance(accepted, Accepted)
    end = MemberEnd(1, 0, FinishReason.LENGTH, Usage(prompt_tokens=5), None)
    assert frame == TokenFrame((), (end,))
    assert bench.slots == [1, 0]


async def test_a_step_becomes_one_frame_for_each_link(bench: Bench) -> None:
    first, second = await bench.start(1, link=1), await bench.start(1, link=2)
    bench.sent.clear()
    usage = Usage(prompt_tokens=5, content_tokens=1)
    bench.desk.step(
        step_report(
            TokensCommitted(first, 0, (42,), "a", Channel.CONTENT),
            TokensCommitted(second, 0, (43,), "b", Channel.CONTENT),
            MemberEnded(first, FinishReason.STOP, usage),
        )
    )
    (one,), (other,) = bench.to(1), bench.to(2)
    assert isinstance(one, TokenFrame)
    assert [item.token_ids for item in one.items] == [(42,)]
    assert one.ends == (MemberEnd(1, 0, FinishReason.STOP, usage, None),)
    assert isinstance(other, TokenFrame)
    assert [item.text for item in other.items] == ["b"]
    assert bench.slots[-1] == 1


async def test_progress_is_an_item_without_tokens(bench: Bench) -> None:
    key = await bench.start(1)
    bench.desk.step(step_report(PromptProgress(key, 32)))
    frame = bench.to(1)[-1]
    assert isinstance(frame, TokenFrame)
    assert [item.token_ids for item in frame.items] == [()]


async def test_a_step_that_concerns_nobody_sends_nothing(bench: Bench) -> None:
    bench.desk.step(step_report(MemberEnded(MemberKey(1, 99, 0), FinishReason.STOP, Usage())))
    bench.desk.step(step_report())
    assert bench.sent == []
    assert bench.slots == []


async def test_a_running_member_keeps_its_slot_until_the_engine_confirms_the_cancel(bench: Bench) -> None:
    key = await bench.start(1)
    bench.desk.cancel(1, Cancel(member=1, attempt=0))
    assert bench.model.commands[-1] == CancelInEngine(key)
    assert bench.desk.slots_in_use == 1
    bench.desk.step(step_report(MemberEnded(key, FinishReason.CANCELLED, Usage(prompt_tokens=5))))
    assert bench.desk.slots_in_use == 0
    assert [end.finish_reason for end in bench.ends()] == [FinishReason.CANCELLED]


async def test_a_member_whose_prompt_is_read_ends_at_once_when_cancelled(bench: Bench) -> None:
    bench.worker.holds = True
    await bench.start(1)
    bench.desk.cancel(1, Cancel(member=1, attempt=0))
    assert bench.desk.slots_in_use == 0
    bench.worker.release()
    await bench.settle()
    assert [end.finish_reason for end in bench.ends()] == [FinishReason.CANCELLED]
    assert len(bench.to(1)) == 1, "an answer after the end"
    assert bench.model.commands == []


async def test_a_prompt_that_nobody_waits_for_leaves_the_queue_unread(bench: Bench) -> None:
    bench.worker.holds = True
    await bench.start(1)
    bench.desk.cancel(1, Cancel(member=1, attempt=0))
    await bench.settle()
    bench.worker.release()
    assert bench.worker.cancelled == 1


async def test_cancelling_what_is_unknown_or_another_attempt_does_nothing(bench: Bench) -> None:
    await bench.start(1)
    bench.desk.cancel(1, Cancel(member=2, attempt=0))
    bench.desk.cancel(1, Cancel(member=1, attempt=1))
    bench.desk.cancel(2, Cancel(member=1, attempt=0))
    assert len(bench.model.commands) == 1


async def test_a_lost_link_cancels_its_members_and_no_others(bench: Bench) -> None:
    first, second = await bench.start(1, link=1), await bench.start(1, link=2)
    bench.desk.link_lost(1)
    assert bench.model.commands[-1] == CancelInEngine(first)
    assert CancelInEngine(second) not in bench.model.commands
    assert bench.desk.slots_in_use == 2, "the engine still works on it"


async def test_the_same_member_twice_is_one_member(bench: Bench) -> None:
    await bench.start(1)
    await bench.start(1)
    assert bench.desk.slots_in_use == 1
    assert len(bench.model.commands) == 1


async def test_another_attempt_of_a_member_is_another_request(bench: Bench) -> None:
    await bench.start(1)
    bench.desk.generate(1, request(1, attempt=1))
    await bench.settle()
    assert bench.desk.slots_in_use == 2


async def test_waiting_until_idle_ends_when_the_last_member_does(bench: Bench) -> None:
    await bench.desk.wait_idle()
    key = await bench.start(1)
    waiting = asyncio.create_task(bench.desk.wait_idle())
    await bench.settle()
    assert not waiting.done()
    bench.desk.step(step_report(MemberEnded(key, FinishReason.STOP, Usage())))
    await waiting


async def test_reading_a_prompt_does_not_block_the_loop(bench: Bench) -> None:
    """C24: the tokenizer runs where it is told to, not on the event loop."""
    seen: list[int] = []
    bench.worker.holds = True
    await bench.start(1)
    (job,) = bench.worker.held

    def work() -> None:
        seen.append(threading.get_ident())
        job()

    thread = threading.Thread(target=work)
    thread.start()
    await asyncio.to_thread(thread.join)
    await bench.settle()
    assert seen != [threading.get_ident()]
    assert bench.to(1) == [Accepted(member=1, attempt=0, prompt_tokens=5)]


async def test_options_go_to_the_engine_over_the_states_parameters(bench: Bench) -> None:
    sampling = SamplingOptions(top_k=3, logit_bias={7: -1.0}, penalises_answer_only=True)
    stop = StopOptions(strings=["."], regexes=["[0-9]"])
    await bench.start(1, sampling=sampling, stop=stop, logprobs=LogprobOptions(top_count=2))
    (command,) = bench.model.commands
    assert isinstance(command, Submit)
    assert isinstance(command.sampling, RequestSampling)
    assert (command.sampling.temperature, command.sampling.top_k, command.sampling.logit_bias) == (0.5, 3, ((7, -1.0),))
    assert command.penalises_answer_only
    assert command.stops is not None
    assert [one.pattern for one in command.stops.patterns] == ["[0-9]"]
    assert command.logprobs == LogprobsWanted(top_count=2)


async def test_regexes_are_compiled_where_constraints_are(bench: Bench) -> None:
    bench.compiler.holds = True
    await bench.start(1, stop=StopOptions(regexes=["a"]))
    assert bench.model.commands == []
    bench.compiler.release()
    await bench.settle()
    assert len(bench.model.commands) == 1


async def test_options_that_cannot_be_honoured_are_refused_with_their_parameter(bench: Bench) -> None:
    await bench.start(1, stop=StopOptions(token_ids=[5000]))
    await bench.start(2, stop=StopOptions(regexes=["("]))
    await bench.start(3, prompt="abc", logprobs=LogprobOptions(prompt_start=3))
    refused = [message for message in bench.to(1) if isinstance(message, Refused)]
    assert [one.parameter for one in refused] == ["stop_token_ids", "stop_regex", "logprob_start_len"]
    assert bench.desk.slots_in_use == 0


async def test_an_echo_is_sent_before_anything_of_the_answer(bench: Bench) -> None:
    await bench.start(1, prompt="^hello", echo=True)
    accepted, frame = bench.to(1)  # a frame for each piece of it: together they might be too large for one
    assert isinstance(accepted, Accepted)
    assert isinstance(frame, TokenFrame)
    assert [(item.token_ids, item.text) for item in frame.items] == [((), "hello")]
    await bench.start(2, prompt="^hi", echo=True, max_tokens=0, stop=StopOptions(skips_special_tokens=False))
    *_, frame, end = bench.to(1)
    assert isinstance(frame, TokenFrame)
    assert [item.text for item in frame.items] == ["^hi"]
    assert isinstance(end, TokenFrame)
    assert end.ends[0].finish_reason is FinishReason.LENGTH


async def test_a_prompt_is_read_without_special_tokens_where_asked(bench: Bench) -> None:
    await bench.start(1, parses_special=False)
    assert bench.model.reader.parsed_special is False


async def test_what_stopped_a_member_is_told_with_its_end(bench: Bench) -> None:
    key = await bench.start(1)
    bench.desk.step(step_report(MemberEnded(key, FinishReason.STOP, Usage(), matched_stop="END")))
    assert [end.matched_stop for end in bench.ends()] == ["END"]
