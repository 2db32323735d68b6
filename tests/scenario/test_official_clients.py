"""The official clients of both completion APIs against a real fleet, the bytes of both stream forms, and what the pages
about both show."""

import contextlib
import io
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import anthropic
import openai
import pytest

from tests.support.completion_client import CompletionClient
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


# The pages

DOCS = Path(__file__).resolve().parents[2] / "docs"
IN_THE_PAGES = "127.0.0.1:8070"
OWN = ("id", "created")


def blocks(page: str, language: str) -> list[str]:
    text = (DOCS / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def answer_of_curl(clients: Clients, block: str) -> str:
    """What a shell would show, the words read as it reads them."""
    program, options, url, header, json_type, data, body = shlex.split(block.replace("\\\n", ""))
    assert (program, options.strip("sSN"), header, data) == ("curl", "-", "-H", "-d")
    assert json_type == "Content-Type: application/json"
    client = CompletionClient(clients.fleet.compat, url.removeprefix(f"http://{IN_THE_PAGES}"), json.loads(body))
    status, text = client.ask()
    assert status == 200, text
    return text


def without_own(document: dict[str, Any]) -> dict[str, Any]:
    """Without what is another each time; how much was cached depends on who came before."""
    if document.get("usage"):
        document["usage"]["prompt_tokens_details"] = None
    return {name: None if name in OWN else one for name, one in document.items()}


def stream_of(text: str) -> tuple[list[list[str]], str, str]:
    """Keys of each event and the joined text: how many tokens come in one event is left to chance. The last event."""
    *events, done = text.strip().split("\n\n")
    assert done == "data: [DONE]"
    documents = [json.loads(event.removeprefix("data: ")) for event in events]
    joined = "".join(one["completion"] if "completion" in one else one["choices"][0]["text"] for one in documents)
    last = without_own(documents[-1])
    last["completion" if "completion" in last else "choices"] = None
    return [list(one) for one in documents][:1], joined, json.dumps(last)


@pytest.mark.parametrize("page", ["completions.md", "complete.md"])
def test_every_curl_of_a_page_gives_what_the_page_shows(clients: Clients, page: str) -> None:
    whole, stream = blocks(page, "sh")
    shown, *_ = blocks(page, "json")
    assert without_own(json.loads(answer_of_curl(clients, whole))) == without_own(json.loads(shown))
    assert stream_of(answer_of_curl(clients, stream)) == stream_of(blocks(page, "text")[0])


@pytest.mark.parametrize("page", ["completions.md", "complete.md"])
def test_the_client_code_of_a_page_prints_what_the_page_shows(clients: Clients, page: str) -> None:
    (code,) = blocks(page, "python")
    assert IN_THE_PAGES in code
    names: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(code.replace(IN_THE_PAGES, str(clients.fleet.compat)), names)
    names["client"].close()
    assert printed.getvalue() == blocks(page, "text")[1]
