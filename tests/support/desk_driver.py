"""A request desk with two slots: prompts and constraints are read when the test says so, and everything that leaves the
desk is kept.

async with desk_driver() as driver:
    key = await driver.start(1)
    assert driver.to(1) == [Accepted(member=1, attempt=0, prompt_tokens=5)]
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor, Future
from contextlib import asynccontextmanager
from typing import Any

from agent.request_desk import MemberKey, RequestDesk, Service
from agent.request_preparation import Readers
from shared.failures import Failure, FailureKind
from shared.generation import SamplingParameters
from shared.messages_from_agent import MemberEnd, MessageFromAgent, TokenFrame
from shared.messages_to_agent import Generate
from tests.support.fake_model import FakeModel

SLOTS = 2
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


class DeskDriver:
    """`worker` reads prompts, `compiler` constraints. `sent`: by link number; `slots`: each number in use there was."""

    def __init__(self, tasks: asyncio.TaskGroup) -> None:
        self.worker = Worker()
        self.compiler = Worker()
        self.model = FakeModel()
        self.sent: list[tuple[int, MessageFromAgent]] = []
        self.slots: list[int] = []
        self.desk = RequestDesk(SLOTS, self, Readers(self.worker, self.compiler), tasks, self.slots.append)

    def send(self, link: int, message: MessageFromAgent) -> None:
        """The desk's outlet."""
        self.sent.append((link, message))

    # What a test does

    async def start(self, member: int, link: int = 1, prompt: str = "hello", **fields: Any) -> MemberKey:
        """A request arrives and gets as far as it can."""
        self.desk.generate(link, request(member, prompt, **fields))
        await self.settle()
        return MemberKey(link, member, 0)

    async def settle(self) -> None:
        """Let tasks that can go on go on."""
        for _ in range(8):
            await asyncio.sleep(0)

    # What a test sees

    def to(self, link: int) -> list[MessageFromAgent]:
        """All messages to one link."""
        return [message for number, message in self.sent if number == link]

    def ends(self) -> list[MemberEnd]:
        """Of members on every link."""
        return [end for _, message in self.sent if isinstance(message, TokenFrame) for end in message.ends]

    def check(self) -> None:
        """When the desk has ended everything: each member has ended once, and no slot is taken."""
        members = [
            (link, end.member, end.attempt)
            for link, message in self.sent
            if isinstance(message, TokenFrame)
            for end in message.ends
        ]
        assert len(members) == len(set(members)), "a member ended twice"
        assert self.desk.slots_in_use == 0


@asynccontextmanager
async def desk_driver() -> AsyncIterator[DeskDriver]:
    """A desk that is open and has a model. Afterwards it ends what is left, and its books are checked."""
    async with asyncio.TaskGroup() as tasks:
        driver = DeskDriver(tasks)
        driver.desk.use(Service(driver.model, SAMPLING))
        driver.desk.set_open(True)
        yield driver
        driver.desk.end_all(Failure(FailureKind.SHUTTING_DOWN, "the test ends"))
        driver.check()


def request(member: int, prompt: str = "hello", **fields: Any) -> Generate:
    """For five tokens at most; `fields` replace others."""
    given: dict[str, Any] = {"raw_prompt": prompt, "max_tokens": 5, "seed": 9, "attempt": 0, **fields}
    return Generate(member=member, request_id=f"r{member}", **given)
