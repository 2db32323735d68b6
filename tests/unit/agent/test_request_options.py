"""A request's options as the engine takes them, and the refusals that need the vocabulary."""

from typing import Any

import pytest

from agent.request_options import check_prompt_start, prepare_options
from shared.failures import Failure, FailureKind
from shared.generation_options import LogprobOptions, SamplingOptions, StopOptions
from shared.messages_to_agent import ConstraintText, Generate


def request(**fields: Any) -> Generate:
    return Generate(member=1, attempt=0, request_id="r", raw_prompt="x", max_tokens=5, seed=1, **fields)


@pytest.mark.parametrize(
    ("fields", "parameter"),
    [
        ({"sampling": SamplingOptions(logit_bias={99: 1.0, 100: 1.0})}, "logit_bias"),
        ({"stop": StopOptions(token_ids=[100])}, "stop_token_ids"),
        ({"logprobs": LogprobOptions(token_ids=[2**31 - 1])}, "token_ids_logprob"),
        ({"stop": StopOptions(regexes=["("])}, "stop_regex"),
        ({"stop": StopOptions(regexes=["a*"])}, "stop_regex"),
        ({"stop": StopOptions(ignores_end=True), "constraint": ConstraintText(kind="regex", text="a")}, "ignore_eos"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_its_name(fields: dict[str, Any], parameter: str) -> None:
    failure = prepare_options(request(**fields), 100)
    assert isinstance(failure, Failure)
    assert (failure.kind, failure.parameter) == (FailureKind.INVALID_REQUEST, parameter)
    assert failure.message.startswith(f"{parameter}: ")


def test_a_foreign_id_is_named_with_the_range() -> None:
    failure = prepare_options(request(sampling=SamplingOptions(logit_bias={100: 1.0})), 100)
    assert isinstance(failure, Failure)
    assert failure.message == "logit_bias: 100 is no token; the model's token ids are 0 to 99"


def test_an_adapter_that_is_loaded_is_taken() -> None:
    assert not isinstance(prepare_options(request(adapter="poet"), 100, frozenset({"poet"})), Failure)


def test_an_adapter_that_is_not_loaded_yet_is_worth_another_try() -> None:
    failure = prepare_options(request(adapter="poet"), 100)
    assert isinstance(failure, Failure)
    assert (failure.kind, failure.parameter) == (FailureKind.ADAPTER_NOT_LOADED, "lora_path")


def test_nothing_asked_for_is_nothing_to_do() -> None:
    options = prepare_options(request(), 100)
    assert not isinstance(options, Failure)
    assert (options.stops, options.logprobs) == (None, None)


def test_options_arrive_as_they_were_asked_for() -> None:
    stop = StopOptions(strings=["a"], token_ids=[7], regexes=["b+"], keeps_match=True, min_tokens=3)
    asked = LogprobOptions(top_count=4, token_ids=[8], prompt_start=2, with_text=True)
    options = prepare_options(request(stop=stop, logprobs=asked), 100)
    assert not isinstance(options, Failure)
    assert options.stops is not None
    assert options.logprobs is not None
    assert (options.stops.token_ids, options.stops.keeps_match, options.stops.min_tokens) == (frozenset({7}), True, 3)
    assert [one.pattern for one in options.stops.patterns] == ["b+"]
    wanted = options.logprobs
    assert (wanted.top_count, wanted.token_ids, wanted.prompt_start, wanted.with_text) == (4, (8,), 2, True)


@pytest.mark.parametrize(("start", "fits"), [(-1, True), (0, True), (4, True), (5, False)])
def test_logprobs_of_the_prompt_begin_inside_it(start: int, fits: bool) -> None:
    failure = check_prompt_start(request(logprobs=LogprobOptions(prompt_start=start)), 5)
    assert (failure is None) is fits
    assert failure is None or failure.parameter == "logprob_start_len"
