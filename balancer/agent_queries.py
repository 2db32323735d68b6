"""Questions to one agent that are answered by one message, such as the metadata of its model."""

import asyncio
from collections.abc import Callable
from itertools import count

from balancer.agent_questions import AgentDidNotAnswer, AgentGone
from balancer.linked_agents import Link
from shared.messages_from_agent import ChatTemplateOverride, ModelMetadata
from shared.messages_to_agent import GetChatTemplateOverride, GetModelMetadata

MAX_PENDING_PER_LINK = 64

Question = GetModelMetadata | GetChatTemplateOverride
Answer = ModelMetadata | ChatTemplateOverride


class AgentQueries:
    """Pending questions; each ends with its answer, with the link, or with its time."""

    def __init__(self, timeout_seconds: float) -> None:
        self._timeout_seconds = timeout_seconds
        self._numbers = count(1)
        self._pending: dict[tuple[Link, int], asyncio.Future[Answer]] = {}

    async def ask(self, link: Link, question: Callable[[int], Question]) -> Answer:
        """Send `question(number)` and wait. Raises AgentGone or AgentDidNotAnswer."""
        if sum(1 for asked, _ in self._pending if asked is link) >= MAX_PENDING_PER_LINK:
            raise AgentDidNotAnswer(f"the agent has {MAX_PENDING_PER_LINK} questions to answer already")
        key = (link, next(self._numbers))
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._pending[key] = answer
        try:
            link.send(question(key[1]))
            async with asyncio.timeout(self._timeout_seconds):
                return await answer
        except TimeoutError:
            raise AgentDidNotAnswer(f"no answer within {self._timeout_seconds:g} s") from None
        finally:
            del self._pending[key]

    def take_answer(self, link: Link, answer: Answer) -> bool:
        """Give an answer to who asked; False when nobody waits for it (any more)."""
        waiting = self._pending.get((link, answer.query))
        if waiting is None or waiting.done():
            return False
        waiting.set_result(answer)
        return True

    def link_lost(self, link: Link) -> None:
        """Nothing will be answered on this link."""
        for (asked, _), waiting in self._pending.items():
            if asked is link and not waiting.done():
                waiting.set_exception(AgentGone("the agent's link ended before it answered"))
