"""The official clients of both completion APIs against a real fleet, and the bytes of both stream forms."""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import anthropic
import openai
import pytest

from tests.support.raw_http import RawConnection
from tests.support.running_fleet import DEADLINE_SECONDS, RunningFleet
from tests.support.tiny_model import demo_model_path

pytestmark = pytest.mark.model

MODEL = demo_model_path().stem
PROMPT = [504, 3575, 282, 4649, 314]  # The capital of France is
GREEDY: dict[str, Any] = {"model": MODEL, "prompt": PROMPT, "max_tokens": 8, "temperature": 0}
SPOKEN = "\n\nHuman: What is the capital of France?\n\nAssistant:"
TEXT: dict[str, Any] = {"model": MODEL, "prompt": SPOKEN, "max_tokens_to_sample": 8, "temperature": 0}


class Clients(NamedTuple):
    """Both of one fleet."""

    openai: openai.OpenAI
    anthropic: anthropic.Anthropic
    fleet: RunningFleet


@pytest.fixture(scope="module")
def clients(demo_fleet: RunningFleet) -> Iterator[Clients]:
    url = f"http://{demo_fleet.compat}"
    options: dict[str, Any] = {"api_key": "none", "max_retries": 0, "timeout": DEADLINE_SECONDS}
    with (
        openai.OpenAI(base_url=f"{url}/v1", **options) as first,
        anthropic.Anthropic(base_url=url, **options) as second,
    ):
        yield Clients(first, second, demo_fleet)


# OpenAI's


def test_the_openai_client_lists_the_served_model(clients: Clients) -> None:
    assert [model.id for model in clients.openai.models.list()] == [MODEL]


def test_the_openai_client_reads_a_whole_answer(clients: Clients) -> None:
    answer = clients.openai.completions.create(**GREEDY)
    (choice,) = answer.choices
    assert "Paris" in choice.text
    assert (choice.index, choice.finish_reason, choice.logprobs) == (0, "length", None)
    assert (answer.object, answer.model) == ("text_completion", MODEL)
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens, answer.usage.total_tokens) == (5, 8, 13)


def test_the_openai_client_joins_a_stream_to_the_whole_answer(clients: Clients) -> None:
    whole = clients.openai.completions.create(**GREEDY).choices[0]
    chunks = list(clients.openai.completions.create(**GREEDY, stream=True, stream_options={"include_usage": True}))
    *told, last = chunks
    assert "".join(chunk.choices[0].text for chunk in told) == whole.text
    assert [chunk.choices[0].finish_reason for chunk in told][-1] == "length"
    assert all(chunk.usage is None for chunk in told)
    assert last.choices == []
    assert last.usage is not None
    assert last.usage.completion_tokens == 8


def test_the_openai_client_gets_n_choices_whole_and_streamed(clients: Clients) -> None:
    asked = {**GREEDY, "n": 3, "seed": 7, "temperature": 1.0}
    whole = clients.openai.completions.create(**asked)
    assert [choice.index for choice in whole.choices] == [0, 1, 2]
    assert len({choice.text for choice in whole.choices}) > 1
    assert whole.usage is not None
    assert whole.usage.prompt_tokens == 5
    texts = ["", "", ""]
    reasons = set()
    for chunk in clients.openai.completions.create(**asked, stream=True):
        for choice in chunk.choices:
            texts[choice.index] += choice.text
            if choice.finish_reason is not None:
                reasons.add((choice.index, choice.finish_reason))
    assert all(texts)
    assert {index for index, _ in reasons} == {0, 1, 2}


def test_the_openai_client_gets_a_batch_of_token_prompts(clients: Clients) -> None:
    answer = clients.openai.completions.create(**{**GREEDY, "prompt": [PROMPT, PROMPT[:4]]})
    assert [choice.index for choice in answer.choices] == [0, 1]
    assert "Paris" in answer.choices[0].text


def test_the_openai_client_reads_log_probabilities(clients: Clients) -> None:
    answer = clients.openai.completions.create(**GREEDY, logprobs=2)
    told = answer.choices[0].logprobs
    assert told is not None
    assert told.tokens is not None
    assert told.token_logprobs is not None
    assert told.top_logprobs is not None
    assert "".join(told.tokens) == answer.choices[0].text
    assert len(told.token_logprobs) == len(told.top_logprobs) == 8
    for logprob, top in zip(told.token_logprobs, told.top_logprobs, strict=True):
        assert logprob == max(top.values())  # greedy
        assert len(top) <= 2


@pytest.mark.parametrize("stream", [False, True])
def test_the_openai_client_stops_before_a_stop_string(clients: Clients, stream: bool) -> None:
    asked = {**GREEDY, "stop": ["Paris"], "stream": stream}
    answer = clients.openai.completions.create(**asked)
    pieces = list(answer) if stream else [answer]
    choices = [choice for piece in pieces for choice in piece.choices]
    assert "P" not in "".join(choice.text for choice in choices)
    assert choices[-1].finish_reason == "stop"


def test_the_openai_client_raises_its_own_errors(clients: Clients) -> None:
    with pytest.raises(openai.NotFoundError) as unknown:
        clients.openai.completions.create(**{**GREEDY, "model": "another"})
    assert (unknown.value.param, unknown.value.code) == ("model", "model_not_found")
    with pytest.raises(openai.BadRequestError) as refused:
        clients.openai.completions.create(**{**GREEDY, "max_tokens": 0})
    assert refused.value.param == "max_tokens"
    assert "max_tokens" in refused.value.message


# Anthropic's


def test_the_anthropic_client_reads_a_whole_answer(clients: Clients) -> None:
    answer = clients.anthropic.completions.create(**TEXT)
    assert answer.type == "completion"
    assert answer.model == MODEL
    assert answer.completion
    assert answer.stop_reason in ("max_tokens", "stop_sequence")


def test_the_anthropic_client_joins_a_stream_to_the_whole_answer(clients: Clients) -> None:
    whole = clients.anthropic.completions.create(**TEXT)
    events = list(clients.anthropic.completions.create(**TEXT, stream=True))
    assert "".join(event.completion for event in events) == whole.completion
    assert events[-1].stop_reason == whole.stop_reason
    assert all(event.stop_reason is None for event in events[:-1])


def test_the_anthropic_client_stops_before_a_stop_sequence(clients: Clients) -> None:
    prompt = "1, 2, 3, 4, 5, 6, 7,"
    asked = {**TEXT, "prompt": prompt, "max_tokens_to_sample": 24, "stop_sequences": ["10"]}
    answer = clients.anthropic.completions.create(**asked)
    assert "9" in answer.completion
    assert "1" not in answer.completion
    assert answer.stop_reason == "stop_sequence"


def test_the_anthropic_client_raises_its_own_errors(clients: Clients) -> None:
    with pytest.raises(anthropic.NotFoundError) as unknown:
        clients.anthropic.completions.create(**{**TEXT, "model": "another"})
    assert unknown.value.body["error"]["type"] == "not_found_error"  # type: ignore[index]
    with pytest.raises(anthropic.BadRequestError) as refused:
        clients.anthropic.completions.create(**{**TEXT, "max_tokens_to_sample": 0})
    assert "max_tokens_to_sample" in refused.value.message


# The bytes


async def stream_bytes(clients: Clients, path: str, body: Any, **headers: str) -> bytes:
    async with RawConnection.to(clients.fleet.compat, deadline_seconds=DEADLINE_SECONDS) as connection:
        await connection.post(path, {**body, "stream": True}, **headers)
        answer = await connection.read_answer()
    assert answer.status == 200
    assert answer.head.headers["content-type"] == "text/event-stream"
    return answer.body


async def test_the_bytes_of_a_data_only_stream(clients: Clients) -> None:
    sent = await stream_bytes(clients, "/v1/completions", GREEDY)
    *events, done, rest = sent.split(b"\n\n")
    assert (done, rest) == (b"data: [DONE]", b"")
    head = b'data: {"id":"cmpl-'
    for event in events:
        assert event.startswith(head)
        assert b"\n" not in event
        assert b"\r" not in event
    documents = [json.loads(event.removeprefix(b"data: ")) for event in events]
    assert [list(one) for one in documents] == [["id", "object", "created", "model", "choices", "usage"]] * len(events)
    assert "Paris" in "".join(one["choices"][0]["text"] for one in documents)


async def test_the_bytes_of_a_stream_with_named_events(clients: Clients) -> None:
    sent = await stream_bytes(clients, "/v1/complete", TEXT, anthropic_version="2023-06-01")
    *events, rest = sent.split(b"\n\n")
    assert rest == b""
    for event in events:
        name, data = event.split(b"\n")  # two lines, and no carriage return that would end a line
        assert b"\r" not in event
        if name == b"event: ping":
            assert data == b'data: {"type":"ping"}'
            continue
        assert name == b"event: completion"
        assert data.startswith(b'data: {"type":"completion","id":"compl_')
    last = json.loads(events[-1].split(b"\ndata: ")[1])
    assert (last["completion"], last["stop_reason"]) == ("", "max_tokens")
    assert b"[DONE]" not in sent


async def test_the_bytes_of_the_seeds_own_stream(clients: Clients) -> None:
    sent = await stream_bytes(clients, "/v1/complete", TEXT)
    assert b"event:" not in sent
    *events, done, rest = sent.split(b"\n\n")
    assert (done, rest) == (b"data: [DONE]", b"")
    assert all(event.startswith(b'data: {"type":"completion","id":"compl_') for event in events)
    assert json.loads(events[-1].removeprefix(b"data: "))["stop_reason"] == "length"
