"""The one table of members in flight: prepares them, hands them to the engine, and ends each exactly once.

A slot is an entry of this table: it is taken when a request arrives and given back with the member's last word,
nowhere else. All methods run on the event loop and none awaits, save the preparation of one request.
"""

import asyncio
import itertools
import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from agent.core.commands import Cancel as CancelInEngine
from agent.core.commands import Submit
from agent.core.events import MemberEnded, StepReport
from agent.core.request_sampling import request_sampling
from agent.model_port import LoadedModel
from agent.request_log import NOTHING, log_member_end
from agent.request_preparation import PreparedRequest, Readers, prepare_request
from agent.token_items import echo_items, token_items
from shared.failures import Failure, FailureKind
from shared.generation import FinishReason, SamplingParameters, Usage
from shared.messages_from_agent import Accepted, Busy, MemberEnd, MessageFromAgent, Refused, TokenFrame, TokenItem
from shared.messages_to_agent import Cancel, Generate

logger = logging.getLogger(__name__)


class MemberKey(NamedTuple):
    """Names a member inside this process: several balancers number their members by themselves."""

    link: int
    member: int
    attempt: int


class Outlet(Protocol):
    """Where messages for a link go; one that is gone takes them and does nothing."""

    def send(self, link: int, message: MessageFromAgent) -> None: ...


@dataclass(slots=True)
class _Member:
    message: Generate
    arrival: int
    began_at: float
    preparation: asyncio.Task[None] | None = None  # None: the engine has it

    def log_end(self, link: int, ending: FinishReason | Failure | None, usage: Usage = NOTHING) -> None:
        """Its last word."""
        log_member_end(self.message, link, time.monotonic() - self.began_at, ending, usage)


@dataclass(frozen=True, slots=True)
class Service:
    """What requests are run with: fixed for each request when it arrives."""

    model: LoadedModel
    sampling: SamplingParameters


class RequestDesk:
    """Members in flight, over all links."""

    def __init__(
        self,
        slots: int,
        outlet: Outlet,
        readers: Readers,
        tasks: asyncio.TaskGroup,
        on_slots_in_use: Callable[[int], None],
    ) -> None:
        self._slots = slots
        self._outlet = outlet
        self._readers = readers
        self._tasks = tasks
        self._on_slots_in_use = on_slots_in_use
        self._members: dict[MemberKey, _Member] = {}
        self._arrivals = itertools.count(1)
        self._service: Service | None = None
        self._is_open = False
        self._idle = asyncio.Event()
        self._idle.set()

    def __repr__(self) -> str:
        return f"<RequestDesk {len(self._members)}/{self._slots} slots busy>"

    @property
    def slots_in_use(self) -> int:
        """Members in flight."""
        return len(self._members)

    async def wait_idle(self) -> None:
        """Until no member is in flight."""
        await self._idle.wait()

    # What requests are run with

    def use(self, service: Service | None) -> None:
        """Run requests that arrive from now on with this. None: there is no model."""
        self._service = service

    def set_open(self, is_open: bool) -> None:
        """Whether requests are taken at all; a model that is exchanged and an agent that leaves take none."""
        self._is_open = is_open

    # Facts from balancers

    def generate(self, link: int, message: Generate) -> None:
        """A balancer has a request for us: it is answered once, before its first token."""
        key = MemberKey(link, message.member, message.attempt)
        if key in self._members:
            logger.warning("link %d sent request %s twice; the second is ignored", link, message.request_id)
            return
        if not self._is_open or self._service is None or len(self._members) >= self._slots:
            self._outlet.send(link, Busy(member=message.member, attempt=message.attempt))
            return
        member = _Member(message, next(self._arrivals), time.monotonic())
        self._members[key] = member
        member.preparation = self._tasks.create_task(
            self._prepare(key, member, self._service), name=f"prepare member {message.member}"
        )
        self._slots_changed()

    def cancel(self, link: int, message: Cancel) -> None:
        """The client left. The member's end is the answer; one that has ended already needs none."""
        self._cancel(MemberKey(link, message.member, message.attempt))

    def link_lost(self, link: int) -> None:
        """Nobody waits for the members of this link any more."""
        for key in [key for key in self._members if key.link == link]:
            self._cancel(key)

    # Facts from the engine

    def step(self, report: StepReport) -> None:
        """What one step brought: one frame for each link that it concerns."""
        frames: dict[int, tuple[list[TokenItem], list[MemberEnd]]] = {}
        for event in report.events:
            key = event.key
            if not isinstance(key, MemberKey) or key not in self._members:
                continue  # it ended here already, with its model or its link
            items, ends = frames.setdefault(key.link, ([], []))
            if isinstance(event, MemberEnded):
                ends.append(_member_end(key, event))
                self._members.pop(key).log_end(key.link, event.failure or event.finish_reason, event.usage)
            else:
                items += token_items(key.member, key.attempt, event)
        for link, (items, ends) in frames.items():
            self._outlet.send(link, TokenFrame(tuple(items), tuple(ends)))
        if any(ends for _, ends in frames.values()):
            self._slots_changed()

    def end_all(self, failure: Failure) -> None:
        """The engine is gone and will not say another word: it said none about these members."""
        self._end(tuple(self._members), None, failure)

    # Private

    def _slots_changed(self) -> None:
        if self._members:
            self._idle.clear()
        else:
            self._idle.set()
        self._on_slots_in_use(len(self._members))

    async def _prepare(self, key: MemberKey, member: _Member, service: Service) -> None:
        """Cancelled here: the member has ended already; the worker's result, if it comes, is nobody's."""
        try:
            prepared = await prepare_request(member.message, service.model, self._readers)
        except Exception:  # a bug of ours, or of the tokenizer: this member fails, the agent lives
            logger.exception("request %s could not be prepared", member.message.request_id)
            prepared = Failure(FailureKind.INTERNAL, "the agent failed while it read the request")
        member.preparation = None
        if isinstance(prepared, Failure):
            del self._members[key]
            member.log_end(key.link, prepared)
            self._refuse(key, prepared)
            self._slots_changed()
            return
        self._accept(key, member, service, prepared)

    def _accept(self, key: MemberKey, member: _Member, service: Service, prepared: PreparedRequest) -> None:
        message, prompt, rules = member.message, prepared.prompt, prepared.rules
        accepted = Accepted(member=key.member, attempt=key.attempt, prompt_tokens=len(prompt))
        self._outlet.send(key.link, accepted)
        for item in echo_items(key.member, key.attempt, prepared.echo.text):
            self._outlet.send(key.link, TokenFrame((item,), ()))
        if message.max_tokens == 0:
            self._end((key,), FinishReason.LENGTH, None, Usage(prompt_tokens=len(prompt)))
            return
        service.model.submit(
            Submit(
                key=key,
                prompt=prompt,
                max_tokens=message.max_tokens,
                sampling=request_sampling(service.sampling, message.sampling),
                seed=message.seed,
                arrival=member.arrival,
                priority=message.priority,
                constraint=rules.constraint,
                stops=rules.options.stops,
                logprobs=rules.options.logprobs,
                text_before=prepared.echo.rest,
                penalises_answer_only=message.sampling is not None and message.sampling.penalises_answer_only,
                adapter=message.adapter,
            )
        )

    def _refuse(self, key: MemberKey, failure: Failure) -> None:
        answer = Refused(
            member=key.member,
            attempt=key.attempt,
            kind=failure.kind,
            message=failure.message,
            parameter=failure.parameter,
        )
        self._outlet.send(key.link, answer)

    def _cancel(self, key: MemberKey) -> None:
        member = self._members.get(key)
        if member is None:
            return
        if member.preparation is None:
            if self._service is not None:
                self._service.model.submit(CancelInEngine(key))
            return
        member.preparation.cancel()
        self._end((key,), FinishReason.CANCELLED, None)

    def _end(
        self,
        keys: Iterable[MemberKey],
        reason: FinishReason | None,
        failure: Failure | None,
        usage: Usage | None = None,
    ) -> None:
        """End members by our own word, the engine having none to say about them."""
        for key in keys:
            member = self._members.pop(key)
            if member.preparation is not None:
                member.preparation.cancel()
            member.log_end(key.link, failure or reason, usage or NOTHING)
            end = MemberEnd(key.member, key.attempt, reason, usage or NOTHING, failure)
            self._outlet.send(key.link, TokenFrame((), (end,)))
        self._slots_changed()


def _member_end(key: MemberKey, event: MemberEnded) -> MemberEnd:
    return MemberEnd(key.member, key.attempt, event.finish_reason, event.usage, event.failure, event.matched_stop)
