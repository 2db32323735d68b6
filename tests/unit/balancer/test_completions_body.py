"""The table of `/v1/completions`: every field at its default, at work, and out of range with the sentence for it."""

from typing import Any

import pytest

from balancer.completions_body import CompletionBody
from shared.generation_options import LogprobOptions
from tests.support.completion_bodies import body, completion, sentence

FIELDS = CompletionBody.model_fields
NEVER = "is not run by Steersman; leave it out"

# A value that will not do, and what is said about it.
REFUSED: dict[str, tuple[Any, str]] = {
    "model": ("", "must not be empty"),
    "prompt": ([], "must be a non-empty list of token ids, or a non-empty list of such lists"),
    "max_tokens": (0, "must be at least 1"),
    "min_tokens": (-1, "must be at least 0"),
    "temperature": (-0.1, "must be at least 0"),
    "top_p": (0, "must be greater than 0"),
    "top_k": (0, "must be -1 (off) or at least 1"),
    "min_p": (1.01, "must be at most 1"),
    "frequency_penalty": (2.1, "must be at most 2"),
    "presence_penalty": (-2.1, "must be at least -2"),
    "repetition_penalty": (0, "must be greater than 0"),
    "stop": (["x"] * 33, "must have at most 32 entries"),
    "stop_token_ids": ("2", "must be a list"),
    "stream": (1, "must be true or false"),
    "ebnf": (5, "must be a string"),
    "regex": (["a"], "must be a string"),
    "json_schema": (5, "must be a string or an object"),
    "logit_bias": ({"hello": 5}, "must have token ids as keys, such as 50256"),
    "n": (0, "must be at least 1"),
    "skip_special_tokens": ("yes", "must be true or false"),
    "ignore_eos": (0, "must be true or false"),
    "no_stop_trim": ("", "must be true or false"),
    "spaces_between_special_tokens": (1, "must be true or false"),
    "stop_regex": ("é" * 129, "must have at most 256 bytes"),
    "structural_tag": (True, "must be a string or an object"),
    "lora_path": ("x" * 257, "must have at most 256 characters"),
    "priority": (101, "must be at most 100"),
    "rid": ("a b", "must have 1 to 128 letters, digits or . _ : -"),
    "return_logprob": (1, "must be true or false"),
    "logprob_start_len": (-2, "must be at least -1"),
    "top_logprobs_num": (21, "must be at most 20"),
    "token_ids_logprob": ([1] * 65, "must have at most 64 entries"),
    "return_text_in_logprobs": (1, "must be true or false"),
    "custom_params": ({}, NEVER),
    "custom_logit_processor": ("code", NEVER),
    "return_hidden_states": (True, NEVER),
    "return_routed_experts": (True, NEVER),
    "response_format": ("json_object", "must be an object"),
    "logprobs": (21, "must be at most 20"),
    "echo": ("true", "must be true or false"),
    "seed": (2**64, "must be an integer"),  # past 64 bits JSON has no integers here
    "stream_options": ([], "must be an object"),
    "return_token_ids": (2, "must be true or false"),
    "best_of": (2, "must be null or equal to n"),
    "suffix": ("end", "must be null"),
    "user": ("x" * 4097, "must have at most 4096 characters"),
}


def test_the_table_below_is_whole() -> None:
    assert set(REFUSED) == set(FIELDS)
    assert all(field.description for field in FIELDS.values())


@pytest.mark.parametrize("name", REFUSED)
def test_a_value_out_of_range_is_refused_with_its_field_and_a_sentence(name: str) -> None:
    value, words = REFUSED[name]
    assert sentence(**{name: value}) == (f"{name}: {words}" if name != "stop_regex" else f"stop_regex.0: {words}", name)


@pytest.mark.parametrize("name", [name for name in FIELDS if name not in ("model", "prompt")])
def test_null_is_the_default(name: str) -> None:
    assert getattr(body(**{name: None}), name) == FIELDS[name].default == getattr(body(), name)


@pytest.mark.parametrize("name", ["model", "prompt"])
def test_what_is_required_cannot_be_null(name: str) -> None:
    assert sentence(**{name: None}) == (f"{name}: is required", name)


def test_the_defaults_are_sglangs() -> None:
    options = completion().request.options
    assert options.sampling is not None
    assert options.sampling.model_dump() == {
        "temperature": 1.0,
        "top_k": -1,
        "top_p": 1.0,
        "min_p": 0.0,
        "frequency_penalty": 0.0,
        "presence_penalty": 0.0,
        "repetition_penalty": 1.0,
        "logit_bias": [],
        "follows_sglang_order": True,
        "penalises_answer_only": True,
    }
    assert (completion().request.max_tokens, len(completion().request.members)) == (16, 1)
    assert (options.logprobs, options.echo, options.adapter, options.parses_special) == (None, False, None, True)


@pytest.mark.parametrize(
    ("name", "value", "found"),
    [
        ("temperature", 0, 0.0),
        ("top_p", 0.5, 0.5),
        ("top_k", 40, 40),
        ("min_p", 0.1, 0.1),
        ("frequency_penalty", -2, -2.0),
        ("presence_penalty", 2, 2.0),
        ("repetition_penalty", 1.5, 1.5),
        ("logit_bias", {"5": -100, "262143": 2.5}, {5: -100.0, 262_143: 2.5}),
    ],
)
def test_sampling_reaches_the_agent(name: str, value: Any, found: Any) -> None:
    assert getattr(completion(**{name: value}).request.options.sampling, name) == found


@pytest.mark.parametrize(
    ("fields", "name", "found"),
    [
        ({"stop": "E F"}, "strings", ["E F"]),
        ({"stop": ["F", "E"]}, "strings", ["F", "E"]),
        ({"stop": []}, "strings", []),
        ({"stop_token_ids": [2, None, 3]}, "token_ids", [2, 3]),
        ({"stop_regex": r"\d"}, "regexes", [r"\d"]),
        ({"no_stop_trim": True}, "keeps_match", True),
        ({"min_tokens": 16}, "min_tokens", 16),
        ({"ignore_eos": True}, "ignores_end", True),
        ({"skip_special_tokens": False}, "skips_special_tokens", False),
        ({"spaces_between_special_tokens": False}, "spaces_between_special_tokens", False),
    ],
)
def test_stops_reach_the_agent(fields: dict[str, Any], name: str, found: Any) -> None:
    assert getattr(completion(**fields).request.options.stop, name) == found


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({"logprobs": 0}, LogprobOptions(with_text=True)),
        ({"logprobs": 5}, LogprobOptions(top_count=5, with_text=True)),
        ({"logprobs": 5, "echo": True}, LogprobOptions(top_count=5, prompt_start=0, with_text=True)),
        ({"logprobs": 0, "echo": True}, LogprobOptions(with_text=True)),
        ({"return_logprob": True}, LogprobOptions()),
        (
            {"return_logprob": True, "logprob_start_len": 2, "top_logprobs_num": 3, "token_ids_logprob": [9]},
            LogprobOptions(top_count=3, token_ids=[9], prompt_start=2),
        ),
        ({"return_logprob": True, "return_text_in_logprobs": True}, LogprobOptions(with_text=True)),
        (
            {"logprobs": 5, "echo": True, "return_logprob": True, "top_logprobs_num": 7, "logprob_start_len": 1},
            LogprobOptions(top_count=7, prompt_start=0, with_text=True),
        ),
    ],
)
def test_log_probabilities_are_asked_for_once_for_both_shapes(fields: dict[str, Any], found: LogprobOptions) -> None:
    assert completion(**fields).request.options.logprobs == found


@pytest.mark.parametrize(
    ("fields", "words", "blamed"),
    [
        ({"prompt": "hello"}, "prompt: must be token ids here; text goes to /v1/complete", "prompt"),
        ({"prompt": ["hello"]}, "prompt: must be token ids here; text goes to /v1/complete", "prompt"),
        (
            {"prompt": [[1], [2]], "n": 65},
            "n: asks for 130 choices together with prompt; at most 128 can be",
            "n",
        ),
        ({"min_tokens": 17}, "min_tokens: must be at most max_tokens, which is 16", "min_tokens"),
        ({"stream_options": {"include_usage": True}}, "stream_options: needs stream to be true", "stream_options"),
        ({"top_logprobs_num": 1}, "top_logprobs_num: needs return_logprob to be true", "top_logprobs_num"),
        (
            {"return_logprob": True, "logprob_start_len": 3},
            "logprob_start_len: is beyond a prompt of 3 tokens",
            "logprob_start_len",
        ),
        ({"regex": "a", "ignore_eos": True}, "ignore_eos: cannot be used together with a constraint", "ignore_eos"),
        ({"regex": "a", "ebnf": 'root ::= "a"'}, "ebnf and regex are given; at most one constraint can be", "regex"),
        (
            {"max_completion_tokens": 3},
            'max_completion_tokens: is not a known field; it is called "max_tokens" here',
            "max_completion_tokens",
        ),
        ({"stop": [""]}, "stop.0: must not be empty", "stop"),
        ({"stop": [1]}, "stop.0: must be a string", "stop"),
        ({"logit_bias": {"-1": 100}}, "logit_bias: must have token ids as keys, such as 50256", "logit_bias"),
        ({"logit_bias": {"5": "high"}}, "logit_bias: must have numbers as values", "logit_bias"),
        (
            {"logit_bias": {"5": 1, "05": 2}},
            "logit_bias: must have each token id once, also with zeros in front of it",
            "logit_bias",
        ),
        ({"prompt": [[1]] * 129}, "prompt: holds 129 prompts; at most 128 can be", "prompt"),
        (
            {"prompt": [[1] * 4000] * 2, "n": 6, "echo": True, "logprobs": 20},
            "logprobs: asks for 1008000 log-probabilities of prompts; at most 1000000 can be",
            "logprobs",
        ),
        (
            {
                "prompt": [1] * 4001,
                "n": 3,
                "return_logprob": True,
                "logprob_start_len": 1,
                "top_logprobs_num": 20,
                "token_ids_logprob": [9] * 64,
            },
            "logprob_start_len: asks for 1020000 log-probabilities of prompts; at most 1000000 can be",
            "logprob_start_len",
        ),
        ({"prompt": [1, 262_144]}, "prompt: has token id 262144; the model's are 0 to 262143", "prompt"),
        ({"prompt": [[1], [262_144]]}, "prompt: has token id 262144; the model's are 0 to 262143", "prompt"),
        (
            {"stop_token_ids": [999_999]},
            "stop_token_ids: has token id 999999; the model's are 0 to 262143",
            "stop_token_ids",
        ),
        ({"logit_bias": {"999999": 5}}, "logit_bias: has token id 999999; the model's are 0 to 262143", "logit_bias"),
        (
            {"return_logprob": True, "token_ids_logprob": [262_144]},
            "token_ids_logprob: has token id 262144; the model's are 0 to 262143",
            "token_ids_logprob",
        ),
        (
            {"prompt": [[1], [1] * 4096]},
            "prompt: has 4096 tokens; prompt and answer together may have 4096, and the answer needs at least one; "
            "shorten it, or raise the desired state's context_size if the model was trained for more",
            "prompt",
        ),
        ({"n": 1_000_000}, "n: must be at most 128", "n"),
        ({"max_tokens": -1}, "max_tokens: must be at least 1", "max_tokens"),
    ],
)
def test_what_does_not_go_together_is_refused(fields: dict[str, Any], words: str, blamed: str) -> None:
    assert sentence(**fields) == (words, blamed)


@pytest.mark.parametrize(
    "fields",
    [
        {"prompt": [1] * 4001, "n": 3, "return_logprob": True, "logprob_start_len": 300, "token_ids_logprob": [9] * 64},
        {"prompt": [[1] * 4000] * 128, "logprobs": 20},  # of the answers alone
        {"prompt": ["x" * 4000] * 12, "logprobs": 19, "echo": True},
    ],
)
def test_fewer_log_probabilities_of_prompts_are_taken(fields: dict[str, Any]) -> None:
    assert completion(**fields).request.options.logprobs is not None
