"""One record is one line in either form, it says how bad it is, and it quotes nobody's control characters."""

import json
import logging
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shared import log_output
from shared.log_fields import fields
from shared.log_output import MAX_MESSAGE_CHARACTERS, formatter_of, goes_to_journal, set_level

HOSTILE = "evil\n2030-01-01 ERROR forged\x1b[31m\u2028\ud800 Zoë"


def record_of(message: str, *arguments: object, level: int = logging.INFO, **values: Any) -> logging.LogRecord:
    record = logging.LogRecord("balancer.x", level, __file__, 1, message, arguments, None)
    record.__dict__.update(fields(**values))
    return record


def written(record: logging.LogRecord, log_format: str = "readable", *, is_journal: bool = False) -> str:
    return formatter_of(log_format, is_journal=is_journal).format(record)


def parsed(line: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(line)
    return document


def with_bug(record: logging.LogRecord) -> logging.LogRecord:
    try:
        raise KeyError("a bug")
    except KeyError as error:
        record.exc_info = (type(error), error, error.__traceback__)
    return record


@pytest.fixture
def _levels_as_before() -> Iterator[None]:
    before = {name: logging.getLogger(name).level for name in log_output.OURS}
    yield
    for name, level in before.items():
        logging.getLogger(name).setLevel(level)


# For people


def test_a_name_cannot_forge_a_line_or_steer_a_terminal() -> None:
    line = written(record_of("agent %s joined", HOSTILE))
    assert line.count("\n") == 0
    assert line.endswith(r"agent evil\n2030-01-01 ERROR forged\x1b[31m\u2028\ud800 Zoë joined")


def test_a_field_cannot_forge_a_line_either() -> None:
    line = written(record_of("x", agents=[HOSTILE], model='a" b=c'))
    assert line.isprintable()
    assert line.endswith(r'model="a\" b=c"')


def test_a_message_is_bounded() -> None:
    assert len(written(record_of("%s", "m" * 100_000, model="f" * 100_000))) < 2 * MAX_MESSAGE_CHARACTERS + 200


def test_fields_follow_the_sentence_and_nothing_is_said_twice() -> None:
    line = written(
        record_of(
            "request %s answered",
            "r1",
            event="request_ended",
            request_id="r1",
            failure=None,
            agents=["a", "b"],
            stream=True,
            status=200,
            duration_seconds=0.25,
            finish_reasons=[],
            model="",
        )
    )
    assert line.endswith(
        'balancer.x: request r1 answered agents=a,b stream=yes status=200 duration_seconds=0.25 model=""'
    )


# For programs


def test_json_is_one_ascii_object_a_line_whatever_a_peer_is_called() -> None:
    line = written(record_of("agent %s joined", HOSTILE, agents=[HOSTILE], status=None), "json")
    assert line.isascii()
    assert line.isprintable()
    document = parsed(line)
    assert document["message"] == f"agent {HOSTILE} joined"
    assert document["agents"] == [HOSTILE]
    assert document["status"] is None
    assert list(document)[:4] == ["time", "level", "logger", "message"]
    assert (document["level"], document["logger"]) == ("info", "balancer.x")


def test_json_has_the_time_in_utc() -> None:
    record = record_of("x")
    record.created, record.msecs = 1_700_000_000.0421, 42.1
    assert parsed(written(record, "json"))["time"] == "2023-11-14T22:13:20.042Z"


def test_json_has_a_traceback_in_a_field_and_bounds_what_is_long() -> None:
    record = with_bug(record_of("%s", "m" * 100_000, model="f" * 100_000))
    line = written(record, "json")
    assert line.count("\n") == 0
    document = parsed(line)
    assert "KeyError: 'a bug'" in document["traceback"]
    assert len(line) < 2 * MAX_MESSAGE_CHARACTERS + 20_000


# The journal


@pytest.mark.parametrize(
    ("level", "prefix"),
    [
        (logging.DEBUG, "<7>"),
        (logging.INFO, "<6>"),
        (logging.WARNING, "<4>"),
        (logging.ERROR, "<3>"),
        (logging.CRITICAL, "<2>"),
    ],
)
def test_the_journal_gets_its_levels(level: int, prefix: str) -> None:
    assert written(record_of("up", level=level), is_journal=True) == f"{prefix}balancer.x: up"
    assert parsed(written(record_of("up", level=level), "json", is_journal=True).removeprefix(prefix))


def test_each_line_of_a_traceback_has_the_level_for_the_journal() -> None:
    lines = written(with_bug(record_of("failed", level=logging.ERROR)), is_journal=True).split("\n")
    assert len(lines) > 2
    assert all(line.startswith("<3>") for line in lines)


def test_only_the_stream_that_systemd_connected_is_the_journal(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as stream, (tmp_path / "other").open("w") as other:
        status = os.fstat(stream.fileno())
        name = f"{status.st_dev}:{status.st_ino}"
        assert goes_to_journal(name, stream)
        assert not goes_to_journal(name, other)
        for variable in (None, "", "nonsense", f"{status.st_dev}:"):
            assert not goes_to_journal(variable, stream)
    assert not goes_to_journal(name, stream)  # closed


def test_people_who_read_a_terminal_see_time_and_level() -> None:
    line = written(record_of("up"))
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} INFO    balancer\.x: up", line)


# Levels


@pytest.mark.usefixtures("_levels_as_before")
def test_the_level_of_both_sides_can_be_changed_while_it_runs() -> None:
    set_level("debug")
    assert logging.getLogger("agent.dialler").isEnabledFor(logging.DEBUG)
    set_level("error")
    for name in log_output.OURS:
        assert not logging.getLogger(name).isEnabledFor(logging.WARNING)


@pytest.mark.usefixtures("_levels_as_before")
def test_a_level_that_there_is_not_changes_nothing() -> None:
    set_level("warning")
    with pytest.raises(ValueError, match="debug, info"):
        set_level("loud")
    assert logging.getLogger("balancer").level == logging.WARNING


def test_a_form_that_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match="readable, json"):
        formatter_of("xml", is_journal=False)
