"""A switchboard that a test plays itself: routes open groups here, the test writes into their real mailboxes."""

import asyncio
from dataclasses import dataclass, field

from balancer.generation_request import GenerationRequest
from balancer.open_group import OpenGroup
from balancer.response_stream import ResponseStream
from shared.failures import Failure
from shared.generation import Channel, FinishReason, Usage
from shared.identifiers import AgentId, GroupId, MemberId
from shared.messages_from_agent import TokenItem

DEADLINE_SECONDS = 20.0


@dataclass(slots=True)
class ScriptedGroup:
    """A group of one. `has_left` is set once the route has called `leave`."""

    opened: OpenGroup
    has_left: asyncio.Event

    @property
    def request(self) -> GenerationRequest:
        return self.opened.request

    @property
    def streams(self) -> tuple[ResponseStream, ...]:
        return self.opened.streams

    async def wait_left(self) -> None:
        async with asyncio.timeout(DEADLINE_SECONDS):
            await self.has_left.wait()

    def run_on(self, agent_name: str | None) -> None:
        self.streams[0].begin_attempt(1, AgentId("agent-id"), agent_name, now=0.0)

    def give(self, text: str, channel: Channel = Channel.CONTENT) -> None:
        """One token."""
        stream = self.streams[0]
        stream.put_item(TokenItem(1, 1, len(stream.token_ids), (5,), text, channel), now=0.0)

    def finish(self, reason: FinishReason | None = FinishReason.STOP, usage: Usage | None = None) -> None:
        self.streams[0].end(reason, usage or Usage(), None, now=0.0)

    def fail(self, failure: Failure) -> None:
        self.streams[0].end(None, Usage(), failure, now=0.0)


@dataclass
class ScriptedGroups:
    """Its `open_group` stands for the switchboard's."""

    max_pending_bytes: int = 1024 * 1024
    opened: list[ScriptedGroup] = field(default_factory=list)
    _arrivals: asyncio.Queue[ScriptedGroup] = field(default_factory=asyncio.Queue)

    def open_group(self, request: GenerationRequest) -> OpenGroup:
        has_left = asyncio.Event()
        stream = ResponseStream(GroupId(1), MemberId(1), 0, self.max_pending_bytes)
        group = OpenGroup(GroupId(1), request, (stream,), lambda _: has_left.set())
        self.opened.append(ScriptedGroup(group, has_left))
        self._arrivals.put_nowait(self.opened[-1])
        return group

    async def wait_opened(self) -> ScriptedGroup:
        """The next group that a route opens."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            return await self._arrivals.get()
