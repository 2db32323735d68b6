"""Agents without a model: `python -m bench.scripted_agents ADDR AGENTS SLOTS TOKENS PAUSE_MS SPLIT`.

A process of its own. Each agent accepts whatever it is sent and streams TOKENS tokens to each member, waiting
PAUSE_MS between two rounds (0: as fast as the link takes them). A round is one frame, or with SPLIT 1 one frame per
token. They measure what the balancer costs, and nothing else.
"""

import asyncio
import sys
from dataclasses import dataclass, field

import aiohttp
import uvloop

from shared import wire
from shared.agent_status import AgentStatus, StateApplicationStatus
from shared.generation import Channel, FinishReason, Usage
from shared.messages_from_agent import Accepted, Hello, MemberEnd, TokenFrame, TokenItem
from shared.messages_to_agent import Cancel, Generate

_TEXT = " token"


@dataclass(slots=True)
class _Member:
    attempt: int
    sent_tokens: int = 0


@dataclass(slots=True)
class ScriptedAgent:
    """One link and its members."""

    name: str
    slots: int
    tokens: int
    pause_seconds: float
    one_per_frame: bool
    members: dict[int, _Member] = field(default_factory=dict)
    work: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self, session: aiohttp.ClientSession, address: str) -> None:
        """Until the balancer closes the link."""
        url = f"ws://{address}/api/v1/agent_socket/{self.name}"
        async with session.ws_connect(url, compress=0, max_msg_size=wire.MAX_MESSAGE_BYTES) as socket:
            hello = Hello(agent_id=self.name, name=self.name, status=_status(self.slots))
            await socket.send_bytes(wire.encode_hello(hello))
            wire.decode_welcome(await socket.receive_bytes())
            async with asyncio.TaskGroup() as tasks:
                sender = tasks.create_task(self._send(socket))
                async for message in socket:
                    if message.type == aiohttp.WSMsgType.BINARY:
                        await self._receive(socket, wire.decode_to_agent(message.data))
                sender.cancel()

    async def _receive(self, socket: aiohttp.ClientWebSocketResponse, message: object) -> None:
        if isinstance(message, Generate):
            accepted = Accepted(member=message.member, attempt=message.attempt, prompt_tokens=1)
            await socket.send_bytes(wire.encode_from_agent(accepted))
            self.members[message.member] = _Member(message.attempt)
            self.work.set()
        elif isinstance(message, Cancel) and (member := self.members.pop(message.member, None)):
            end = _end(message.member, member, FinishReason.CANCELLED)
            await socket.send_bytes(wire.encode_from_agent(TokenFrame((), (end,))))

    async def _send(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        while True:
            await self.work.wait()
            items, ends = self._next_frame()
            if self.one_per_frame:
                for item in items:
                    await socket.send_bytes(wire.encode_from_agent(TokenFrame((item,), ())))
                items = ()
            if items or ends:
                await socket.send_bytes(wire.encode_from_agent(TokenFrame(items, ends)))
            if not self.members:
                self.work.clear()
            await asyncio.sleep(self.pause_seconds)

    def _next_frame(self) -> tuple[tuple[TokenItem, ...], tuple[MemberEnd, ...]]:
        items: list[TokenItem] = []
        ends: list[MemberEnd] = []
        for number, member in list(self.members.items()):
            items.append(TokenItem(number, member.attempt, member.sent_tokens, (7,), _TEXT, Channel.CONTENT))
            member.sent_tokens += 1
            if member.sent_tokens >= self.tokens:
                ends.append(_end(number, member, FinishReason.LENGTH))
                del self.members[number]
        return tuple(items), tuple(ends)


def _end(number: int, member: _Member, reason: FinishReason) -> MemberEnd:
    return MemberEnd(number, member.attempt, reason, Usage(prompt_tokens=1, content_tokens=member.sent_tokens), None)


def _status(slots: int) -> AgentStatus:
    return AgentStatus(
        status_version=1,
        desired_slots_total=slots,
        slots_total=slots,
        slots_processing=0,
        accepting=True,
        draining=False,
        state_application_status=StateApplicationStatus.APPLIED,
        applied_revision=0,
        swap_phase=None,
        issues=[],
        model_path="/scripted.gguf",
        uses_chat_template_override=False,
        request_limit_tokens=8192,
    )


async def _main(address: str, agents: int, slots: int, tokens: int, pause_seconds: float, split: bool) -> None:
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session, asyncio.TaskGroup() as tasks:
        for number in range(agents):
            agent = ScriptedAgent(f"scripted-{number}", slots, tokens, pause_seconds, split)
            tasks.create_task(agent.run(session, address), name=agent.name)


if __name__ == "__main__":
    words = sys.argv[1:]
    agents, slots, tokens = (int(word) for word in words[1:4])
    uvloop.run(_main(words[0], agents, slots, tokens, float(words[4]) / 1000, words[5] == "1"))
