"""Links, the desired state, questions and the end, as the switchboard drives them."""

import asyncio

import pytest

from balancer.agent_questions import AgentDidNotAnswer, AgentGone, AgentUnknown
from balancer.response_stream import Ended
from shared.desired_state import DEFAULT_DESIRED_STATE
from shared.failures import FailureKind
from shared.messages_from_agent import ChatTemplateOverride, ModelMetadata
from shared.messages_to_agent import GetChatTemplateOverride, GetModelMetadata, SetState
from tests.support.switchboard_driver import RecordingLink, SwitchboardDriver, request, status, texts

STATE = DEFAULT_DESIRED_STATE.for_agents()


class TestLinks:
    def test_a_second_link_of_the_same_agent_replaces_the_first(self, drive: SwitchboardDriver) -> None:
        old = drive.join("a")
        opened = drive.board.open_group(request())
        old_work = old.work
        new = drive.join("a")
        assert old.closed is not None
        assert new.work.attempt == old_work.attempt + 1
        drive.token(old, old_work, 0, "from the old link")
        drive.board.agent_lost(old)
        drive.token(new, new.work, 0, "from the new one")
        assert texts(opened.streams[0]) == ["from the new one"]
        assert len(drive.board.fleet().agents) == 1

    def test_what_delivered_something_fails_with_its_agent(self, drive: SwitchboardDriver) -> None:
        link = drive.join()
        opened = drive.board.open_group(request())
        drive.token(link, link.work, 0, "half")
        drive.board.agent_lost(link)
        assert texts(opened.streams[0]) == ["half", f"failed: {FailureKind.AGENT_LOST}"]

    def test_an_older_status_changes_nothing(self, drive: SwitchboardDriver) -> None:
        link = drive.join(slots=1, version=5)
        for version in (4, 5):
            drive.update(link, status(4, version=version))
        assert drive.board.statistics().slots_total == 1
        drive.update(link, status(4, version=6))
        assert drive.board.statistics().slots_total == 4

    def test_an_agent_whose_engine_hangs_gets_no_work(self, drive: SwitchboardDriver) -> None:
        link = drive.join()
        drive.update(link, status(1, version=2, last_step_age_seconds=31.0))
        drive.board.open_group(request())
        assert link.sent == []
        drive.update(link, status(1, version=3, last_step_age_seconds=None))
        assert len(link.sent) == 1


class TestTheDesiredState:
    def test_whoever_joins_gets_it_and_so_does_whoever_is_there(self, drive: SwitchboardDriver) -> None:
        early = drive.join("a", slots=0)
        assert early.sent == []
        drive.board.set_desired_state(3, STATE)
        late = drive.join("b")
        assert [message.revision for link in (early, late) for message in link.sent_of(SetState)] == [3, 3]

    def test_the_fleet_view_shows_agents_in_order_with_exact_counts(self, drive: SwitchboardDriver) -> None:
        drive.join("b", slots=2)
        drive.join("a")
        drive.board.set_desired_state(3, STATE)
        drive.board.open_group(request())
        drive.clock.now += 1.5
        fleet = drive.board.fleet()
        assert [(one.agent_id, one.slots_processing) for one in fleet.agents] == [("a", 1), ("b", 0)]
        assert fleet.agents[0].last_heard_age_seconds == 1.5
        assert (fleet.wanted_revision, fleet.applicable_state) == (3, STATE)


class TestQuestions:
    async def test_the_answer_reaches_who_asked(self, drive: SwitchboardDriver) -> None:
        link = drive.join()
        metadata = asyncio.create_task(drive.board.ask_model_metadata("a"))
        override = asyncio.create_task(drive.board.ask_chat_template_override("a"))
        await asyncio.sleep(0)
        (first,) = link.sent_of(GetModelMetadata)
        (second,) = link.sent_of(GetChatTemplateOverride)
        drive.board.agent_message(link, ChatTemplateOverride(query=second.query, content="{{ x }}"))
        drive.board.agent_message(link, ModelMetadata(query=first.query, metadata={"k": "v"}))
        drive.board.agent_message(link, ModelMetadata(query=first.query, metadata={"again": ""}))
        assert await metadata == {"k": "v"}
        assert await override == "{{ x }}"

    async def test_each_way_to_get_none_has_its_own_word(self) -> None:
        drive = SwitchboardDriver(query_timeout_seconds=0.01)
        with pytest.raises(AgentUnknown):
            await drive.board.ask_model_metadata("nobody")
        link = drive.join()
        with pytest.raises(AgentDidNotAnswer):
            await drive.board.ask_model_metadata("a")
        asked = asyncio.create_task(drive.board.ask_model_metadata("a"))
        await asyncio.sleep(0)
        drive.board.agent_lost(link)
        with pytest.raises(AgentGone):
            await asked


class TestShutdown:
    async def test_it_waits_for_what_runs_and_then_for_nothing(self, drive: SwitchboardDriver) -> None:
        link = drive.join()
        drive.board.open_group(request())
        drive.board.begin_shutdown(drive.clock.now + 60)
        drained = asyncio.create_task(drive.board.wait_drained())
        await asyncio.sleep(0)
        assert not drained.done()
        drive.end(link, link.work)
        await drained

    def test_the_rest_fails_and_is_cancelled_at_the_deadline(self, drive: SwitchboardDriver) -> None:
        link = drive.join()
        running, waiting = (drive.board.open_group(request()) for _ in range(2))
        drive.board.begin_shutdown(drive.clock.now + 5)
        drive.wait(5)
        for opened in (running, waiting):
            assert texts(opened.streams[0]) == [f"failed: {FailureKind.SHUTTING_DOWN}"]
        assert link.cancelled == [link.work.member]

    def test_a_second_signal_does_not_wait(self, drive: SwitchboardDriver) -> None:
        opened = drive.board.open_group(request())
        drive.board.begin_shutdown(drive.clock.now + 60)
        drive.board.fail_the_rest()
        assert texts(opened.streams[0]) == [f"failed: {FailureKind.SHUTTING_DOWN}"]


async def test_run_wakes_up_for_a_deadline_that_came_after_it_fell_asleep() -> None:
    drive = SwitchboardDriver()
    loop = asyncio.get_running_loop()
    drive.clock.now = 0.0
    runner = asyncio.create_task(drive.board.run())
    await asyncio.sleep(0)
    opened = drive.board.open_group(request())
    drive.clock.now += 10.0  # the deadline is over before the sleeper's second is
    started = loop.time()
    drive.board.open_group(request())  # a fact of any kind makes the switchboard look at its deadlines
    event = (await opened.streams[0].wait_events())[0]
    runner.cancel()
    assert isinstance(event, Ended)
    assert loop.time() - started < 5


def test_every_change_bumps_the_signal(drive: SwitchboardDriver) -> None:
    before = drive.board.changes.version
    link = drive.join()
    drive.board.open_group(request())
    drive.token(link, link.work, 0)
    assert drive.board.changes.version >= before + 3
    middle = drive.board.changes.version
    drive.token(link, link.work, 1)
    assert drive.board.changes.version == middle  # tokens are nobody's news but their reader's


def test_messages_of_an_unknown_link_are_ignored(drive: SwitchboardDriver) -> None:
    stranger = RecordingLink("stranger")
    drive.update(stranger, status())
    drive.board.agent_lost(stranger)
    assert drive.board.fleet().agents == ()
    assert repr(drive.board).startswith("<Switchboard <Machine")
