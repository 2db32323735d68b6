"""A switchboard without sockets or time: links that record what they are told, and a clock that a test moves."""

from collections.abc import Iterator
from itertools import repeat
from typing import Any, TypeVar

from balancer.core.machine import Machine
from balancer.core.state import MachineSettings
from balancer.generation_request import GenerationRequest, MemberRequest
from balancer.linked_agents import LinkIdentity
from balancer.response_stream import Accepted as AcceptedEvent
from balancer.response_stream import ResponseStream, StreamEvent, Tokens
from balancer.switchboard import Switchboard
from balancer.switchboard_tables import SwitchboardSettings
from shared.agent_status import AgentStatus
from shared.generation import Channel, FinishReason, Usage
from shared.identifiers import AgentId
from shared.messages_from_agent import Accepted, Busy, MemberEnd, StatusUpdate, TokenFrame, TokenItem
from shared.messages_to_agent import Cancel, Generate, MessageToAgent
from tests.support.agent_statuses import agent_status

M = TypeVar("M", bound=MessageToAgent)


class Clock:
    """Seconds; moves when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def status(slots: int = 1, *, version: int = 1, **changes: Any) -> AgentStatus:
    """An agent that serves; `changes` replace fields."""
    return agent_status(slots, status_version=version, **changes)


def request(*, members: int = 1, request_id: str = "r", **changes: object) -> GenerationRequest:
    """A group of `members`, seeded 100, 101, ..."""
    fields: dict[str, object] = {
        "request_id": request_id,
        "endpoint": "continue_from_raw_prompt",
        "raw_prompt": "Once upon a time",
        "prompt_token_ids": None,
        "max_tokens": 16,
        "members": tuple(MemberRequest(index, 100 + index) for index in range(members)),
    }
    return GenerationRequest(**{**fields, **changes})  # type: ignore[arg-type]


class RecordingLink:
    """A link whose agent says only what the test makes it say."""

    def __init__(self, agent_id: str = "a", *, clock: Clock | None = None) -> None:
        self.identity = LinkIdentity(AgentId(agent_id), f"name of {agent_id}", "0.1.0", "127.0.0.1")
        self.last_heard_at = clock() if clock else 0.0
        self.fits: Iterator[bool] = repeat(True)  # whether each next message is small enough
        self.has_room = True
        self.sent: list[MessageToAgent] = []
        self.closed: tuple[int, str] | None = None

    def send(self, message: MessageToAgent) -> bool:
        fits = next(self.fits)
        if fits:
            self.sent.append(message)
        return fits

    def has_room_for(self, message_bytes: int) -> bool:
        return self.has_room

    def close(self, code: int, reason: str) -> None:
        self.closed = (code, reason)

    def sent_of(self, kind: type[M]) -> list[M]:
        return [message for message in self.sent if isinstance(message, kind)]

    @property
    def work(self) -> Generate:
        """The newest member it was given."""
        return self.sent_of(Generate)[-1]

    @property
    def cancelled(self) -> list[int]:
        return [message.member for message in self.sent_of(Cancel)]


class SwitchboardDriver:
    """Plays the agents' side; invariants are checked after every event."""

    def __init__(self, *, max_buffered_requests: int = 2, **settings: object) -> None:
        self.clock = Clock()
        machine_settings = MachineSettings(max_buffered_requests=max_buffered_requests, checks_every_event=True)
        self.board = Switchboard(
            Machine(machine_settings),
            self.clock,
            SwitchboardSettings(**settings),  # type: ignore[arg-type]
        )

    def join(self, agent_id: str = "a", slots: int = 1, **changes: Any) -> RecordingLink:
        link = RecordingLink(agent_id, clock=self.clock)
        self.board.agent_joined(link, status(slots, **changes))
        return link

    def accept(self, link: RecordingLink, work: Generate) -> None:
        self.board.agent_message(link, Accepted(member=work.member, attempt=work.attempt, prompt_tokens=7))

    def busy(self, link: RecordingLink, work: Generate) -> None:
        self.board.agent_message(link, Busy(member=work.member, attempt=work.attempt))

    def update(self, link: RecordingLink, new_status: AgentStatus) -> None:
        self.board.agent_message(link, StatusUpdate(status=new_status))

    def token(self, link: RecordingLink, work: Generate, index: int, text: str = "x") -> None:
        """One token; an empty frame for progress is `progress`."""
        item = TokenItem(work.member, work.attempt, index, (40 + index,), text, Channel.CONTENT)
        self.board.agent_message(link, TokenFrame((item,), ()))

    def progress(self, link: RecordingLink, work: Generate) -> None:
        item = TokenItem(work.member, work.attempt, 0, (), "", Channel.CONTENT)
        self.board.agent_message(link, TokenFrame((item,), ()))

    def end(self, link: RecordingLink, work: Generate, reason: FinishReason = FinishReason.STOP) -> None:
        usage = Usage(prompt_tokens=7, content_tokens=2)
        self.board.agent_message(link, TokenFrame((), (MemberEnd(work.member, work.attempt, reason, usage, None),)))

    def wait(self, seconds: float) -> None:
        """Let time pass, in steps, with everything that falls due."""
        end = self.clock.now + seconds
        while self.clock.now < end:
            self.clock.now = min(end, self.clock.now + 0.5)
            self.board.tick()


def texts(stream: ResponseStream) -> list[str]:
    """The events that are there now, in words: the texts of tokens, and what the others are."""
    return [_words(event) for event in stream.take_nowait()]


def _words(event: StreamEvent) -> str:
    if isinstance(event, Tokens):
        return event.item.text
    if isinstance(event, AcceptedEvent):
        return "Accepted"
    return f"failed: {event.failure.kind}" if event.failure is not None else str(event.finish_reason)
