"""Three habits of answering `/v1/complete` (C35)."""

import json
from typing import Any

import pytest

from balancer.compat_errors import CompatError
from balancer.complete_answers import SEED, VERSIONS, CompleteAnswers, Habits, habits_of
from shared.generation import FinishReason
from tests.support.completion_bodies import ended, tokens

ALL = [SEED, *VERSIONS.values()]


def document(text: str, reason: str | None) -> dict[str, Any]:
    return {"type": "completion", "id": "compl_1", "completion": text, "model": "m", "stop_reason": reason}


def streamed(habits: Habits, reason: FinishReason) -> list[str]:
    """The events of a stream of three batches, as text without the empty line."""
    answers = CompleteAnswers(habits, "m", "compl_1")
    batches = [[tokens("A", 1)], [tokens("", 2)], [tokens("B", 3), ended(reason)]]
    events = [one for one in (answers.chunk(0, batch) for batch in batches) if one is not None]
    return b"".join([*events, *answers.last_events()]).decode().split("\n\n")[:-1]


def test_the_seeds_stream_is_data_only_with_deltas_and_done() -> None:
    lines = streamed(SEED, FinishReason.LENGTH)
    assert [json.loads(line.removeprefix("data: ")) for line in lines[:-1]] == [
        document("A", None),
        document("B", "length"),
    ]
    assert lines[-1] == "data: [DONE]"


def test_the_newer_version_has_named_events_deltas_and_an_empty_last_one() -> None:
    lines = streamed(VERSIONS["2023-06-01"], FinishReason.LENGTH)
    assert all(line.startswith("event: completion\ndata: ") for line in lines)
    assert [json.loads(line.split("data: ")[1]) for line in lines] == [
        document("A", None),
        document("B", None),
        document("", "max_tokens"),
    ]


def test_the_older_version_has_data_only_events_with_the_whole_text_so_far() -> None:
    lines = streamed(VERSIONS["2023-01-01"], FinishReason.STOP)
    assert [json.loads(line.removeprefix("data: ")) for line in lines[:-1]] == [
        document("A", None),
        document("AB", "stop_sequence"),
    ]
    assert lines[-1] == "data: [DONE]"


@pytest.mark.parametrize(("habits", "length"), [(one, "length" if one is SEED else "max_tokens") for one in ALL])
def test_a_whole_answer(habits: Habits, length: str) -> None:
    for reason, word in ((FinishReason.STOP, "stop_sequence"), (FinishReason.LENGTH, length)):
        answers = CompleteAnswers(habits, "m", "compl_1")
        answers.keep(0, [tokens("A", 1)])
        answers.keep(0, [tokens("B", 2), ended(reason, matched_stop="x")])
        assert answers.whole() == document("AB", word)


def test_errors_in_a_stream() -> None:
    error = CompatError(502, "gone")
    ends = [CompleteAnswers(habits, "m", "c").error_events(error) for habits in ALL]
    shape = '{"type":"error","error":{"type":"api_error","message":"gone"}}'
    assert [b"".join(one).decode() for one in ends] == [
        'data: {"code":"The service is currently unavailable","error":"gone"}\n\n',
        f"event: error\ndata: {shape}\n\n",
        f"data: {shape}\n\n",
    ]


def test_what_keeps_a_quiet_stream_alive() -> None:
    assert VERSIONS["2023-06-01"].keep_alive == b'event: ping\ndata: {"type":"ping"}\n\n'
    assert SEED.keep_alive.startswith(b":")


def test_the_header_chooses() -> None:
    assert habits_of(None) is SEED
    assert habits_of("2023-06-01") is VERSIONS["2023-06-01"]
    assert habits_of("2024-01-01") is None
