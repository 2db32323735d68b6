"""Requests through the switchboard, played with recording links and a clock that stands still."""

import logging

import pytest

from shared.failures import Failure, FailureKind
from shared.generation import Channel, FinishReason, Usage
from shared.messages_from_agent import MemberEnd, Refused, TokenFrame, TokenItem
from shared.messages_to_agent import Cancel, Generate
from tests.support.switchboard_driver import SwitchboardDriver, request, texts


class TestARequest:
    def test_from_arrival_to_its_end(self, drive: SwitchboardDriver) -> None:
        link = drive.join()
        opened = drive.board.open_group(request(request_id="abc"))
        work = link.work
        assert (work.request_id, work.raw_prompt, work.max_tokens, work.seed) == ("abc", "Once upon a time", 16, 100)
        drive.accept(link, work)
        drive.token(link, work, 0, "he")
        drive.token(link, work, 1, "llo")
        drive.end(link, work)
        assert texts(opened.streams[0]) == ["Accepted", "he", "llo", "stop"]
        opened.leave()
        assert link.cancelled == []
        assert drive.board.statistics().slots_processing == 0

    def test_each_member_gets_its_own_seed_and_stream(self, drive: SwitchboardDriver) -> None:
        link = drive.join(slots=2)
        opened = drive.board.open_group(request(members=2))
        first, second = link.sent_of(Generate)
        assert (first.seed, second.seed) == (100, 101)
        drive.token(link, second, 0, "two")
        drive.token(link, first, 0, "one")
        assert [texts(stream) for stream in opened.streams] == [["one"], ["two"]]

    def test_a_full_room_is_known_when_the_group_is_opened(self, drive: SwitchboardDriver) -> None:
        opened = [drive.board.open_group(request()) for _ in range(3)]
        assert texts(opened[2].streams[0]) == [f"failed: {FailureKind.BUFFER_FULL}"]
        assert drive.board.requests_buffered == 2

    def test_waiting_too_long_ends_it_on_time(self, drive: SwitchboardDriver) -> None:
        opened = drive.board.open_group(request())
        drive.wait(9.5)
        assert texts(opened.streams[0]) == []
        drive.wait(0.5)
        assert texts(opened.streams[0]) == [f"failed: {FailureKind.WAITED_TOO_LONG}"]

    def test_leaving_cancels_on_the_agent_and_its_end_frees_the_slot(self, drive: SwitchboardDriver) -> None:
        link = drive.join()
        opened = drive.board.open_group(request())
        opened.leave()
        opened.leave()
        assert link.cancelled == [link.work.member]
        assert drive.board.statistics().slots_processing == 1
        drive.end(link, link.work, FinishReason.CANCELLED)
        assert drive.board.statistics().slots_processing == 0

    def test_a_request_too_large_for_the_link_is_refused_and_the_link_lives(self, drive: SwitchboardDriver) -> None:
        link = drive.join()
        link.fits = iter([False, True])
        opened = drive.board.open_group(request())
        assert texts(opened.streams[0]) == [f"failed: {FailureKind.INVALID_REQUEST}"]
        drive.board.open_group(request(request_id="next"))
        assert link.work.request_id == "next"

    def test_a_full_link_gets_no_work_which_waits_in_its_place_for_room_or_another_agent(
        self, drive: SwitchboardDriver
    ) -> None:
        link = drive.join()
        link.has_room = False
        first = drive.board.open_group(request(request_id="first"))
        drive.board.open_group(request(request_id="second"))
        assert link.sent_of(Generate) == []
        assert drive.board.requests_buffered == 2
        other = drive.join("b")
        assert other.work.request_id == "first"
        link.has_room = True
        drive.wait(1.0)
        assert link.work.request_id == "second"
        drive.end(other, other.work)
        assert texts(first.streams[0]) == ["stop"]

    def test_a_fact_that_comes_up_while_others_are_acted_on_waits_for_its_turn(self, drive: SwitchboardDriver) -> None:
        link = drive.join(slots=2)
        link.fits = iter([False, True, True])
        drive.board.open_group(request(members=2))
        assert [type(message) for message in link.sent] == [Generate, Cancel]


class TestItems:
    def test_items_of_another_attempt_agent_or_member_are_dropped_and_counted(self, drive: SwitchboardDriver) -> None:
        link = drive.join("a")
        other = drive.join("b")
        opened = drive.board.open_group(request())
        work = link.work
        drive.token(other, work, 0, "not mine")
        stale = TokenItem(work.member, work.attempt + 1, 0, (1,), "stale", Channel.CONTENT)
        unknown = TokenItem(999, 1, 0, (1,), "unknown", Channel.CONTENT)
        ends = (MemberEnd(999, 1, FinishReason.STOP, Usage(), None),)
        drive.board.agent_message(link, TokenFrame((stale, unknown), ends))
        drive.token(link, work, 0, "mine")
        assert texts(opened.streams[0]) == ["mine"]
        assert drive.board.stale_messages == 4

    def test_after_busy_the_old_attempt_is_over(self, drive: SwitchboardDriver) -> None:
        link = drive.join()
        opened = drive.board.open_group(request())
        drive.busy(link, link.work)
        drive.token(link, link.work, 0, "late")
        assert texts(opened.streams[0]) == []
        assert drive.board.requests_buffered == 1

    def test_tokens_out_of_order_end_the_request_and_are_cancelled(self, drive: SwitchboardDriver) -> None:
        link = drive.join()
        opened = drive.board.open_group(request())
        drive.token(link, link.work, 3)
        assert texts(opened.streams[0]) == [f"failed: {FailureKind.INTERNAL}"]
        assert link.cancelled == [link.work.member]

    def test_what_an_agent_cannot_know_does_not_cut_the_answer(self, drive: SwitchboardDriver) -> None:
        link = drive.join()
        slow = Failure(FailureKind.SLOW_CONSUMER, "says the agent")
        ended, refused = drive.board.open_group(request()), drive.board.open_group(request())
        work = link.work
        drive.board.agent_message(link, TokenFrame((), (MemberEnd(work.member, work.attempt, None, Usage(), slow),)))
        work = link.work
        drive.board.agent_message(
            link, Refused(member=work.member, attempt=work.attempt, kind=slow.kind, message=slow.message)
        )
        for opened in (ended, refused):
            assert texts(opened.streams[0]) == [f"failed: {FailureKind.INTERNAL}"]

    def test_refused_ends_it_with_the_agents_word(self, drive: SwitchboardDriver) -> None:
        link = drive.join()
        opened = drive.board.open_group(request())
        work = link.work
        drive.board.agent_message(
            link,
            Refused(member=work.member, attempt=work.attempt, kind=FailureKind.PROMPT_TOO_LONG, message="9 of 8"),
        )
        assert texts(opened.streams[0]) == [f"failed: {FailureKind.PROMPT_TOO_LONG}"]


class TestSilence:
    def test_progress_counts_as_a_sign_of_life(self, drive: SwitchboardDriver) -> None:
        link = drive.join()
        opened = drive.board.open_group(request())
        for _ in range(4):
            drive.wait(25)
            drive.progress(link, link.work)
        assert texts(opened.streams[0]) == []
        drive.wait(31)
        assert texts(opened.streams[0]) == [f"failed: {FailureKind.AGENT_SILENT}"]
        assert link.cancelled == [link.work.member]

    def test_a_second_silence_frees_the_slot_with_a_warning(
        self, drive: SwitchboardDriver, caplog: pytest.LogCaptureFixture
    ) -> None:
        link = drive.join()
        drive.board.open_group(request())
        drive.wait(31)
        assert drive.board.statistics().slots_processing == 1
        with caplog.at_level(logging.WARNING):
            drive.wait(31)
        assert drive.board.statistics().slots_processing == 0
        assert "never confirmed" in caplog.text
        drive.end(link, link.work, FinishReason.CANCELLED)
        assert drive.board.stale_messages == 1

    def test_zero_switches_it_off_but_cancelled_members_still_give_their_slot_back(self) -> None:
        drive = SwitchboardDriver(inference_item_timeout_seconds=0.0, cancel_patience_seconds=5.0)
        drive.join()
        opened = drive.board.open_group(request())
        drive.wait(1000)
        assert texts(opened.streams[0]) == []
        opened.leave()
        drive.wait(6)
        assert drive.board.statistics().slots_processing == 0

    def test_a_waiting_member_is_not_called_silent(self) -> None:
        drive = SwitchboardDriver(inference_item_timeout_seconds=3.0)
        link = drive.join()
        drive.board.open_group(request())
        drive.board.agent_lost(link)
        drive.wait(9)
        assert drive.board.statistics().counters.stale_facts == 0
        assert drive.board.requests_buffered == 1


class TestSlowConsumers:
    def test_over_its_bytes_the_group_is_aborted_and_the_member_cancelled(self) -> None:
        drive = SwitchboardDriver(max_pending_bytes=2000)
        link = drive.join()
        opened = drive.board.open_group(request(request_id="slow"))
        dropped: list[str] = []
        opened.on_abort(lambda: dropped.append("connection"))
        for index in range(30):
            drive.token(link, link.work, index)
        assert dropped == ["connection"]
        assert texts(opened.streams[0]) == [f"failed: {FailureKind.SLOW_CONSUMER}"]
        assert link.cancelled == [link.work.member]
        assert "slow_consumer" in (drive.board.story("slow") or ("",))[-1]

    def test_a_reader_that_makes_no_progress_is_aborted_after_its_time(self, drive: SwitchboardDriver) -> None:
        link = drive.join()
        opened = drive.board.open_group(request())
        dropped: list[str] = []
        opened.on_abort(lambda: dropped.append("connection"))
        drive.token(link, link.work, 0)
        for index in range(1, 30):
            drive.wait(1)
            drive.token(link, link.work, index)
        assert dropped == []
        drive.wait(2)
        assert dropped == ["connection"]

    def test_also_when_only_the_end_is_left_unread(self, drive: SwitchboardDriver) -> None:
        link = drive.join()
        opened = drive.board.open_group(request())
        dropped: list[str] = []
        opened.on_abort(lambda: dropped.append("connection"))
        drive.end(link, link.work)
        drive.wait(40)
        assert dropped == ["connection"]
