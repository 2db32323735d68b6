"""What a service manager is told, and when: the decisions, without a socket and without a clock."""

from itertools import pairwise

import pytest

from shared.service_manager import ServiceFacts, ServiceManager, ServiceReporter, one_line

PING = "WATCHDOG=1"


def facts(status: str = "fine", **changes: object) -> ServiceFacts:
    return ServiceFacts(**{"status": status, "is_ready": True, **changes})  # type: ignore[arg-type]


def ready_reporter(watchdog_seconds: float | None = 30.0) -> ServiceReporter:
    """Ready since 0 s, with a ping at 0 s if it is watched."""
    reporter = ServiceReporter(watchdog_seconds)
    reporter.assignments(facts(), 0.0)
    return reporter


def test_ready_is_said_once_and_a_status_only_when_it_is_new() -> None:
    reporter = ServiceReporter(None)
    assert reporter.assignments(facts("one"), 0.0) == ["STATUS=one", "READY=1"]
    assert reporter.is_ready
    assert reporter.assignments(facts("one"), 1.0) == []
    assert reporter.assignments(facts("two"), 2.0) == ["STATUS=two"]


def test_while_it_is_not_ready_it_asks_for_more_time_again_and_again() -> None:
    reporter = ServiceReporter(None)
    waiting = facts("waiting", is_ready=False)
    assert reporter.assignments(waiting, 0.0) == ["STATUS=waiting", "EXTEND_TIMEOUT_USEC=30000000"]
    assert reporter.assignments(waiting, 4.9) == []
    assert reporter.assignments(waiting, 5.0) == ["EXTEND_TIMEOUT_USEC=30000000"]
    assert reporter.assignments(facts("waiting"), 6.0) == ["READY=1"]


def test_pings_come_every_half_of_the_limit() -> None:
    reporter = ready_reporter()
    pinged = [second for second in range(1, 61) if PING in reporter.assignments(facts(), float(second))]
    assert pinged == [15, 30, 45, 60]


def test_without_a_watchdog_nothing_is_pinged() -> None:
    reporter = ready_reporter(None)
    assert reporter.assignments(facts(silent_seconds=9e9), 100.0) == []


def test_an_engine_that_stands_for_half_the_limit_stops_the_pings_until_it_advances() -> None:
    reporter = ready_reporter()
    assert PING in reporter.assignments(facts(silent_seconds=15.0), 15.0)
    assert reporter.assignments(facts(silent_seconds=22.5), 22.5) == []
    assert reporter.assignments(facts(silent_seconds=30.0), 30.0) == []
    assert PING in reporter.assignments(facts(silent_seconds=0.2), 37.5)


def test_one_step_longer_than_half_the_limit_costs_a_late_ping_and_not_the_process() -> None:
    reporter = ready_reporter()
    # A step from 7 s to 28 s: looked at each quarter, the gap between two pings stays under the limit.
    pinged = [0.0]
    for quarter in range(1, 9):
        now = quarter * 7.5
        silent_seconds = now - 7.0 if 7.0 < now < 28.0 else 0.0
        if PING in reporter.assignments(facts(silent_seconds=silent_seconds), now):
            pinged.append(now)
    assert max(later - earlier for earlier, later in pairwise(pinged)) < 30.0


def test_a_load_raises_the_limit_and_its_end_restores_it() -> None:
    reporter = ready_reporter()
    assert reporter.assignments(facts(load=0.0), 1.0) == ["WATCHDOG_USEC=600000000", PING]
    assert reporter.assignments(facts(load=0.1), 16.0) == [PING]
    assert reporter.assignments(facts(), 20.0) == ["WATCHDOG_USEC=30000000", PING]


def test_a_load_that_does_not_move_stops_the_pings() -> None:
    reporter = ready_reporter()
    reporter.assignments(facts(load=0.5), 10.0)
    assert PING in reporter.assignments(facts(load=0.5), 310.0)
    assert reporter.assignments(facts(load=0.5), 330.0) == []
    assert PING in reporter.assignments(facts(load=0.6), 331.0)


def test_a_limit_above_that_of_loads_stays() -> None:
    reporter = ready_reporter(3600.0)
    assert reporter.assignments(facts(load=0.0), 1.0) == []


def test_what_did_not_leave_is_said_again() -> None:
    reporter = ready_reporter()
    reporter.not_sent()
    said = reporter.assignments(facts("new"), 1.0)
    assert said == ["STATUS=new", "READY=1", "WATCHDOG_USEC=30000000", PING]
    assert reporter.assignments(facts("new"), 2.0) == []


@pytest.mark.parametrize(("watchdog_seconds", "pause_seconds"), [(None, 2.0), (30.0, 2.0), (1.0, 0.25)])
def test_it_looks_often_enough_for_the_watchdog(watchdog_seconds: float | None, pause_seconds: float) -> None:
    assert ServiceReporter(watchdog_seconds).seconds_to_next_look() == 0.1
    reporter = ready_reporter(watchdog_seconds)
    assert reporter.seconds_to_next_look() == pause_seconds
    reporter.not_sent()
    assert reporter.seconds_to_next_look() == pause_seconds  # nobody there: no reason to hurry


def test_a_status_is_one_short_line_whatever_is_in_it() -> None:
    reporter = ServiceReporter(None)
    lines = reporter.assignments(facts("a\nREADY=1\x00" + "é" * 1000, is_ready=False), 0.0)
    assert lines[0].startswith("STATUS=a READY=1 é")
    assert len(lines[0]) == len("STATUS=") + 200
    assert one_line("short") == "short"


@pytest.mark.parametrize("address", ["", "/", "@", "relative/path", "vsock:2:1234"])
def test_nothing_is_told_where_no_socket_is_named(address: str) -> None:
    assert ServiceManager.of({"NOTIFY_SOCKET": address}, 1) is None
    assert ServiceManager.of({}, 1) is None


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        ({"WATCHDOG_USEC": "30000000"}, 30.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "77"}, 30.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "78"}, None),  # of a parent
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "-5"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
        ({}, None),
    ],
)
def test_the_watchdog_is_ours_when_its_variables_say_so(given: dict[str, str], seconds: float | None) -> None:
    manager = ServiceManager.of({"NOTIFY_SOCKET": "/nonexistent/notify", **given}, 77)
    assert manager is not None
    assert manager.watchdog_seconds == seconds
    assert manager.notify_socket.send("READY=1") is False, "nobody is there, and that is no error"
    manager.notify_socket.close()
