"""Every field of `/v1/completions` at work on a real model: none is accepted and without effect."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from balancer.choice_seeds import choice_seed
from balancer.completions_body import CompletionBody
from tests.support.completion_client import CompletionClient
from tests.support.running_fleet import RunningFleet
from tests.support.tiny_model import demo_model_path

pytestmark = pytest.mark.model

PROMPT = [504, 3575, 282, 4649, 314]  # The capital of France is
PARIS = 7042
END = 2  # <|im_end|>
HOT: dict[str, Any] = {"temperature": 1.5, "seed": 11}
ALWAYS_END: dict[str, Any] = {"logit_bias": {str(END): 100}, "ignore_eos": True, "max_tokens": 3}
SCHEMA = {"type": "object", "properties": {"a": {"enum": [7]}}, "required": ["a"], "additionalProperties": False}

Answer = dict[str, Any]
Check = Callable[[Answer, Answer], bool]


@pytest.fixture(scope="module")
def client(demo_fleet: RunningFleet) -> CompletionClient:
    fields = {"model": demo_model_path().stem, "prompt": PROMPT, "max_tokens": 24, "temperature": 0}
    return CompletionClient(demo_fleet.compat, "/v1/completions", fields)


@pytest.fixture(scope="module")
def plain(client: CompletionClient) -> Answer:
    """The greedy answer that everything is compared with."""
    return client.document()


def text(answer: Answer) -> str:
    (choice,) = answer["choices"]
    found: str = choice["text"]
    return found


def matched(answer: Answer) -> Any:
    return answer["choices"][0]["matched_stop"]


def told(answer: Answer) -> dict[str, Any]:
    found: dict[str, Any] = answer["choices"][0]["meta_info"]
    return found


def is_same(answer: Answer, plain: Answer) -> bool:
    return text(answer) == text(plain)


def differs(answer: Answer, plain: Answer) -> bool:
    return not is_same(answer, plain)


# What is asked for, and what must be seen of it beside the plain greedy answer.
AT_WORK: dict[str, tuple[dict[str, Any], Check]] = {
    "prompt": ({"prompt": [*PROMPT, 260]}, differs),
    "max_tokens": ({"max_tokens": 3}, lambda answer, _: answer["usage"]["completion_tokens"] == 3),
    "min_tokens": (
        {"stop": ".", "min_tokens": 5},
        lambda answer, _: answer["usage"]["completion_tokens"] >= 5 and "." in text(answer),
    ),
    "temperature": (HOT, differs),
    "top_p": ({**HOT, "top_p": 0.001}, is_same),
    "top_k": ({**HOT, "top_k": 1}, is_same),
    "min_p": ({**HOT, "min_p": 1.0}, is_same),
    "frequency_penalty": ({"frequency_penalty": 2.0}, differs),
    "presence_penalty": ({"presence_penalty": 2.0}, differs),
    "repetition_penalty": ({"repetition_penalty": 2.0}, differs),
    "stop": ({"stop": ["aris", "Par"]}, lambda answer, _: (text(answer), matched(answer)) == (" ", "Par")),
    "stop_token_ids": (
        {"stop_token_ids": [PARIS]},
        lambda answer, _: (text(answer), matched(answer), answer["usage"]["completion_tokens"]) == ("", PARIS, 1),
    ),
    "ebnf": ({"ebnf": 'root ::= "A" | "B"'}, lambda answer, _: text(answer) in ("A", "B")),
    "regex": ({"regex": "[0-9]{3}"}, lambda answer, _: re.fullmatch("[0-9]{3}", text(answer)) is not None),
    "json_schema": ({"json_schema": SCHEMA}, lambda answer, _: json.loads(text(answer)) == {"a": 7}),
    "structural_tag": (
        {"structural_tag": {"type": "structural_tag", "format": {"type": "const_string", "value": "Lyon"}}},
        lambda answer, _: text(answer) == "Lyon",
    ),
    "response_format": (
        {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}},
        lambda answer, _: json.loads(text(answer)) == {"a": 7},
    ),
    "logit_bias": ({"logit_bias": {str(PARIS): -100}}, lambda answer, _: "Paris" not in text(answer)[:6]),
    "n": ({"n": 2}, lambda answer, _: [one["index"] for one in answer["choices"]] == [0, 1]),
    "skip_special_tokens": (
        {**ALWAYS_END, "skip_special_tokens": False},
        lambda answer, _: text(answer).count("<|im_end|>") == 3,
    ),
    "spaces_between_special_tokens": (
        {**ALWAYS_END, "skip_special_tokens": False, "spaces_between_special_tokens": False},
        lambda answer, _: text(answer) == "<|im_end|>" * 3,
    ),
    "ignore_eos": (ALWAYS_END, lambda answer, _: (text(answer), answer["usage"]["completion_tokens"]) == ("", 3)),
    "no_stop_trim": ({"stop": "Par", "no_stop_trim": True}, lambda answer, _: text(answer) == " Par"),
    "stop_regex": (
        {"stop_regex": "P[a-z]"},
        lambda answer, _: (text(answer), matched(answer)) == (" ", "P[a-z]"),
    ),
    "rid": ({"rid": "its-own"}, lambda answer, _: answer["id"] == "its-own"),
    "return_logprob": (
        {"return_logprob": True, "max_tokens": 2},
        lambda answer, _: next(one[1] for one in told(answer)["output_token_logprobs"]) == PARIS,
    ),
    "logprob_start_len": (
        {"return_logprob": True, "logprob_start_len": 3, "max_tokens": 1},
        lambda answer, _: [one[1] for one in told(answer)["input_token_logprobs"]] == PROMPT[3:],
    ),
    "top_logprobs_num": (
        {"return_logprob": True, "top_logprobs_num": 3, "max_tokens": 2},
        lambda answer, _: [len(one) for one in told(answer)["output_top_logprobs"]] == [3, 3],
    ),
    "token_ids_logprob": (
        {"return_logprob": True, "token_ids_logprob": [9, 5], "max_tokens": 1},
        lambda answer, _: [one[1] for one in told(answer)["output_token_ids_logprobs"][0]] == [9, 5],
    ),
    "return_text_in_logprobs": (
        {"return_logprob": True, "return_text_in_logprobs": True, "max_tokens": 1},
        lambda answer, _: told(answer)["output_token_logprobs"][0][2] == " Paris",
    ),
    "logprobs": (
        {"logprobs": 2, "max_tokens": 1},
        lambda answer, _: next(iter(answer["choices"][0]["logprobs"]["top_logprobs"][0])) == " Paris",
    ),
    "echo": ({"echo": True}, lambda answer, plain: text(answer) == "The capital of France is" + text(plain)),
    "seed": ({**HOT, "seed": 12}, differs),
    "return_token_ids": (
        {"return_token_ids": True},
        lambda answer, _: (
            (answer["choices"][0]["token_ids"][0], answer["choices"][0]["prompt_token_ids"]) == (PARIS, PROMPT)
        ),
    ),
    "best_of": ({"n": 2, "best_of": 2}, lambda answer, _: len(answer["choices"]) == 2),
}

# Shown elsewhere: by a stream, by other tests, or by having no other value than the default.
ELSEWHERE = {
    *("model", "stream", "stream_options", "priority", "lora_path", "user", "suffix"),
    *("custom_params", "custom_logit_processor", "return_hidden_states", "return_routed_experts"),
}


def test_no_field_is_forgotten() -> None:
    assert set(AT_WORK) | ELSEWHERE == set(CompletionBody.model_fields)


@pytest.mark.parametrize("name", AT_WORK)
def test_a_field_has_its_effect(name: str, client: CompletionClient, plain: Answer) -> None:
    fields, is_seen = AT_WORK[name]
    answer = client.document(**fields)
    assert is_seen(answer, plain), answer


def test_a_stream_joined_is_the_whole_answer_and_shows_no_part_of_a_stop(client: CompletionClient) -> None:
    fields: dict[str, Any] = {"stop": "\n\nThe United", "stream_options": {"include_usage": True}}
    *chunks, last = client.chunks(**fields)
    whole = client.document(stop=fields["stop"])
    pieces = [chunk["choices"][0]["text"] for chunk in chunks]
    assert "".join(pieces) == text(whole) == " Paris."
    assert "\n" not in "".join(pieces)
    assert (last["choices"], last["usage"]["completion_tokens"]) == ([], whole["usage"]["completion_tokens"])
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks] == [*[None] * (len(chunks) - 1), "stop"]


@pytest.mark.parametrize(("spaces", "shown"), [(True, "<|im_end|> <|im_end|>The"), (False, "<|im_end|><|im_end|>The")])
def test_an_echo_shows_special_tokens_as_the_answer_does(client: CompletionClient, spaces: bool, shown: str) -> None:
    fields: dict[str, Any] = {"skip_special_tokens": False, "spaces_between_special_tokens": spaces}
    answer = client.document(prompt=[END, END, 504], echo=True, max_tokens=1, **fields)
    assert text(answer).startswith(shown)
    assert text(client.document(prompt=[END, END, 504], echo=True, max_tokens=1)).startswith("The")


def test_choices_are_those_of_single_requests_with_their_seeds(client: CompletionClient) -> None:
    fields: dict[str, Any] = {"temperature": 1.0, "max_tokens": 4}
    together = client.document(**fields, n=6, seed=3)
    alone = [text(client.document(**fields, seed=choice_seed(3, sample))) for sample in range(6)]
    # The draws are the same, but on logits that differ by the noise of another batch: some may fall on a border.
    pairs = zip(together["choices"], alone, strict=True)
    assert sum(choice["text"] == single for choice, single in pairs) >= 4
    assert len(set(alone)) > 1


def test_a_seed_on_a_cold_agent_gives_the_same_answer_to_the_last_bit(
    client: CompletionClient, demo_fleet: RunningFleet
) -> None:
    """Alone and with nothing in memory; the log-probabilities show differences that no text would."""
    fields: dict[str, Any] = {"temperature": 1.5, "seed": 7, "max_tokens": 40, "ignore_eos": True, "logprobs": 2}
    answers = []
    for context_size in (2048, 2304, 2048):  # each time the model is loaded anew
        demo_fleet.serve(demo_model_path(), context_size=context_size)
        answers.append(client.document(**fields)["choices"])
    assert answers[0] == answers[2]
    assert client.document(**{**fields, "seed": 8})["choices"] != answers[0]


def test_a_batch_is_its_single_prompts(client: CompletionClient) -> None:
    """Short, because what shares a batch moves logits a little: a near tie late in an answer may fall the other way."""
    prompts = [PROMPT, [*PROMPT, 260], [504]]
    together = client.document(prompt=prompts, max_tokens=6)
    alone = [client.document(prompt=prompt, max_tokens=6) for prompt in prompts]
    assert [choice["text"] for choice in together["choices"]] == [text(one) for one in alone]
    assert together["usage"]["prompt_tokens"] == sum(one["usage"]["prompt_tokens"] for one in alone)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"prompt": [49_152]}, "prompt"),
        ({"prompt": [1] * 2048}, "prompt"),
        ({"logit_bias": {"49152": 1}}, "logit_bias"),
        ({"stop_token_ids": [49_152]}, "stop_token_ids"),
        ({"stop_regex": "("}, "stop_regex"),
        ({"regex": "("}, "regex"),
        ({"ebnf": "root ::= other"}, "ebnf"),
        ({"json_schema": {"type": 5}}, "json_schema"),
        ({"response_format": {"type": "json_schema", "json_schema": {"schema": {"type": 5}}}}, "response_format"),
        ({"structural_tag": {"type": "nothing"}}, "structural_tag"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_what_only_the_model_can_refuse_is_a_real_status(
    fields: dict[str, Any], param: str, stream: bool, client: CompletionClient
) -> None:
    status, body = client.ask(**fields, stream=stream)
    assert (status, json.loads(body)["error"]["param"]) == (400, param)


def test_legacy_text_in_both_habits(client: CompletionClient) -> None:
    model = client.fields["model"]
    fields = {"model": model, "prompt": "The capital of France is", "max_tokens_to_sample": 6, "temperature": 0}
    legacy = CompletionClient(client.address, "/v1/complete", fields)
    assert (legacy.document()["completion"], legacy.document()["stop_reason"]) == (" Paris.\n\nThe United", "length")
    theirs = {"anthropic-version": "2023-06-01"}
    status, body = legacy.ask(theirs, stop_sequences=["\n"])
    found = json.loads(body)
    assert (status, found["completion"], found["stop_reason"]) == (200, " Paris.", "stop_sequence")
    assert json.loads(legacy.ask(theirs)[1])["stop_reason"] == "max_tokens"
    assert legacy.document(prompt="<|im_end|>")["type"] == "completion"
