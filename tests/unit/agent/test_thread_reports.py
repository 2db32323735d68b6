"""What threads report arrives within the loop, in order; when the loop is gone, nobody is told and nobody is hurt."""

import asyncio
import threading
from dataclasses import dataclass, field

from agent.core.events import StepReport
from agent.model_port import LoadedModel
from agent.thread_reports import ThreadReports
from tests.support.fake_model import FakeModel, step_report


@dataclass
class Listener:
    """Keeps what it hears, with the thread in which it did."""

    name: str
    heard: list[tuple[str, object, int]] = field(default_factory=list)

    def step(self, report: StepReport) -> None:
        self.heard.append((self.name, report, threading.get_ident()))

    def engine_crashed(self, model: LoadedModel, sentence: str) -> None:
        self.heard.append((self.name, sentence, threading.get_ident()))


async def test_steps_and_a_crash_are_delivered_within_the_loop_in_their_order() -> None:
    reports = ThreadReports(asyncio.get_running_loop())
    board, desk = Listener("board"), Listener("desk")
    desk.heard = board.heard
    reports.deliver_to(board, desk, of_crashes=board)
    first, second = step_report(), step_report()

    def report() -> None:
        reports.publish(first)
        reports.publish(second)
        reports.crashed(FakeModel(), "it fell over")

    await asyncio.to_thread(report)
    await asyncio.sleep(0)
    here = threading.get_ident()
    assert board.heard == [
        *((name, one, here) for one in (first, second) for name in ("board", "desk")),
        ("board", "it fell over", here),
    ]


async def test_before_anybody_listens_nothing_is_delivered() -> None:
    reports = ThreadReports(asyncio.get_running_loop())
    reports.publish(step_report())
    reports.crashed(FakeModel(), "it fell over")
    board = Listener("board")
    await asyncio.sleep(0)
    reports.deliver_to(board, of_crashes=board)
    await asyncio.sleep(0)
    assert board.heard == []


def test_a_hung_engine_that_comes_back_after_the_loop_is_closed_tells_nobody() -> None:
    loop = asyncio.new_event_loop()
    reports = ThreadReports(loop)
    board = Listener("board")
    reports.deliver_to(board, of_crashes=board)
    loop.close()
    reports.publish(step_report())
    reports.load_progress(0.5)
    assert board.heard == []
    assert reports.load_fraction == 0.5
