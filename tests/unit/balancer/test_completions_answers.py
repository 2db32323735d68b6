"""The seed's shape, whole and streamed; joined deltas are the whole answer (C17, C18)."""

import json
from typing import Any

import pytest

from balancer.compat_errors import CompatError
from balancer.completions_answers import CompletionAnswers
from balancer.response_stream import Accepted, StreamEvent, Tokens
from shared.generation import Channel, FinishReason, Usage
from shared.logprobs import LogprobEntry, LogprobPlace
from shared.messages_from_agent import TokenItem
from tests.support.completion_bodies import body, ended, tokens

HEAD = {"id": "cmpl-1", "object": "text_completion", "created": 1_770_000_000, "model": "m"}
USAGE = Usage(prompt_tokens=3, cached_prompt_tokens=2, content_tokens=4, reasoning_tokens=1)


def answers(**fields: Any) -> CompletionAnswers:
    return CompletionAnswers(body(**fields), "cmpl-1", 1_770_000_000)


def whole(given: CompletionAnswers, *choices: list[StreamEvent]) -> dict[str, Any]:
    for index, events in enumerate(choices):
        given.keep(index, events)
    return given.whole()


def chunk(given: CompletionAnswers, index: int, *events: StreamEvent) -> dict[str, Any] | None:
    event = given.chunk(index, events)
    return None if event is None else document(event)


def document(event: bytes) -> dict[str, Any]:
    assert event.startswith(b"data: {")
    assert event.endswith(b"}\n\n")
    assert event.count(b"\n") == 2
    found: dict[str, Any] = json.loads(event[len(b"data: ") :])
    return found


def place(token_id: int, logprob: float | None, piece: bytes = b"x", **groups: Any) -> LogprobPlace:
    return LogprobPlace(LogprobEntry(token_id, logprob, piece), **groups)


def test_a_whole_answer_has_the_seeds_keys_in_its_order() -> None:
    events = [Accepted(3, "agent"), tokens("A", 5), tokens("B", 6), ended(FinishReason.STOP, USAGE, "###")]
    found = whole(answers(), events)
    assert json.dumps(found) == json.dumps(
        {
            **HEAD,
            "choices": [{"index": 0, "text": "AB", "logprobs": None, "finish_reason": "stop", "matched_stop": "###"}],
            "usage": {
                "prompt_tokens": 3,
                "completion_tokens": 5,
                "total_tokens": 8,
                "prompt_tokens_details": {"cached_tokens": 2},
                "reasoning_tokens": 1,
            },
        }
    )


def test_usage_counts_each_prompt_once_and_every_answer() -> None:
    given = answers(prompt=[[1, 2, 3], [4]], n=2)
    usages = [Usage(3, 0, 5), Usage(3, 3, 6), Usage(1, 1, 7), Usage(1, 1, 8)]
    found = whole(given, *([ended(FinishReason.LENGTH, usage)] for usage in usages))["usage"]
    assert (found["prompt_tokens"], found["completion_tokens"], found["total_tokens"]) == (4, 26, 30)
    assert found["prompt_tokens_details"] == {"cached_tokens": 1}


@pytest.mark.parametrize("matched", [None, "###", 2])
def test_deltas_joined_are_the_whole_and_the_reason_comes_once(matched: str | int | None) -> None:
    given = answers(n=2)
    chunks = [
        chunk(given, 1, Accepted(3, "agent"), tokens("one", 5), tokens(" two", 6)),
        chunk(given, 0, tokens("", 5)),  # held back
        chunk(given, 1, tokens("", 7), tokens(" three"), ended(FinishReason.STOP, USAGE, matched)),
        chunk(given, 0, ended(FinishReason.LENGTH, USAGE)),
    ]
    assert chunks[1] is None
    choices = [one["choices"][0] for one in chunks if one is not None]
    assert "".join(choice["text"] for choice in choices if choice["index"] == 1) == "one two three"
    assert [(one["index"], one["finish_reason"], one["matched_stop"]) for one in choices] == [
        (1, None, None),
        (1, "stop", matched),
        (0, "length", None),
    ]
    assert all(one is None or ({**one, "choices": 0} == {**HEAD, "choices": 0, "usage": None}) for one in chunks)


def test_usage_comes_in_one_last_chunk_when_it_is_asked_for_and_else_nowhere() -> None:
    given = answers(stream=True, stream_options={"include_usage": True})
    given.chunk(0, [ended(FinishReason.STOP, USAGE)])
    usage, done = given.last_events()
    assert document(usage) == {**HEAD, "choices": [], "usage": given.usage()}
    assert done == b"data: [DONE]\n\n"
    assert answers(stream=True).last_events() == [done]
    assert answers(stream=True, stream_options={"include_usage": False}).last_events() == [done]


def test_a_stream_that_fails_ends_with_one_object_that_two_kinds_of_client_read() -> None:
    (event,) = answers().error_events(CompatError(502, "gone", None, "agent_lost"))
    assert document(event) == {
        "error": {"message": "gone", "type": "server_error", "param": None, "code": "agent_lost"},
        "object": "error",
        "message": "gone",
        "type": "server_error",
        "param": None,
        "code": 502,
    }


def test_no_line_splitter_cuts_an_event() -> None:
    event = answers().chunk(0, [tokens("a\u2028b\u0085c\n", 5)])
    assert event is not None
    assert len(event.decode().splitlines()) == 2
    assert document(event)["choices"][0]["text"] == "a\u2028b\u0085c\n"


def test_token_ids_come_with_every_chunk_and_the_prompts_once() -> None:
    given = answers(return_token_ids=True)
    first, second = chunk(given, 0, tokens("", 5)), chunk(given, 0, tokens("x", 6), ended())
    assert first is not None
    assert second is not None
    assert (first["choices"][0]["token_ids"], first["choices"][0]["prompt_token_ids"]) == ([5], [5, 6, 7])
    assert second["choices"][0]["token_ids"] == [6]
    assert "prompt_token_ids" not in second["choices"][0]


def test_both_shapes_of_log_probabilities_keep_to_their_own_start() -> None:
    fields: dict[str, Any] = {"logprobs": 1, "echo": True, "return_logprob": True, "logprob_start_len": 1}
    prompt = (place(5, None), place(6, -1.0), place(7, -2.0))
    events = [tokens("xxx", places=prompt[:2]), tokens("", places=prompt[2:]), tokens("y", 8, places=(place(8, -3.0),))]
    found = whole(answers(**fields), [*events, ended()])["choices"][0]
    assert found["logprobs"]["token_logprobs"] == [None, -1.0, -2.0, -3.0]
    assert found["meta_info"]["input_token_logprobs"] == [[-1.0, 6, None], [-2.0, 7, None]]
    assert found["meta_info"]["output_token_logprobs"] == [[-3.0, 8, None]]
    streamed = answers(**fields)
    pieces = [one for one in (chunk(streamed, 0, event) for event in events) if one is not None]
    told = [one["choices"][0]["meta_info"]["input_token_logprobs"] for one in pieces]
    assert told == [[[-1.0, 6, None]], [[-2.0, 7, None]], []]


def test_log_probabilities_that_cannot_be_read_are_not_swallowed() -> None:
    broken = Tokens("agent", TokenItem(1, 1, 0, (5,), "x", Channel.CONTENT, b"\x01"))
    with pytest.raises(ValueError):
        answers(logprobs=1).chunk(0, [broken])
    with pytest.raises(ValueError):
        whole(answers(logprobs=1), [broken, ended()])


@pytest.mark.parametrize("logprobs", [0, 1])
def test_offsets_count_an_echo_whether_its_tokens_are_told_of_or_not(logprobs: int) -> None:
    told = (place(5, None, b"ab"), place(6, -1.0, b"c")) if logprobs else ()
    first, second = (place(7, -2.0, b"de"),), (place(8, -3.0, b"f"),)
    events = [tokens("a"), tokens("bc"), tokens("", places=told), tokens("", 7, places=first)]  # the second held back
    events += [tokens("de", 8, places=second), tokens("f"), ended()]
    expected = [*([0, 2] if logprobs else []), 3, 5]
    fields: dict[str, Any] = {"echo": True, "logprobs": logprobs}
    assert whole(answers(**fields), events)["choices"][0]["logprobs"]["text_offset"] == expected
    streamed = answers(**fields)
    pieces = [one["choices"][0]["logprobs"] for event in events if (one := chunk(streamed, 0, event)) is not None]
    assert [offset for piece in pieces for offset in piece["text_offset"]] == expected


def test_an_answer_with_many_log_probabilities_is_long() -> None:
    given = answers(logprobs=1)
    given.keep(0, [tokens("x", 5, places=(place(5, -1.0),))])
    assert not given.is_long
    given.keep(0, [tokens("x", 6, places=(place(6, -1.0),) * 6000)])
    assert given.is_long
