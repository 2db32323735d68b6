"""The bounds of what a request may ask for; what a client reads about them is tested at the dialects."""

from typing import Any

import pytest
from pydantic import ValidationError

from shared.generation_options import LogprobOptions, SamplingOptions, StopOptions


@pytest.mark.parametrize(
    ("model", "fields"),
    [
        (SamplingOptions, {"temperature": -0.1}),
        (SamplingOptions, {"temperature": float("inf")}),
        (SamplingOptions, {"temperature": True}),
        (SamplingOptions, {"top_k": -2}),
        (SamplingOptions, {"top_p": 0.0}),
        (SamplingOptions, {"top_p": 1.1}),
        (SamplingOptions, {"min_p": 1.1}),
        (SamplingOptions, {"frequency_penalty": 2.1}),
        (SamplingOptions, {"presence_penalty": -2.1}),
        (SamplingOptions, {"repetition_penalty": 0.0}),
        (SamplingOptions, {"logit_bias": {-1: 1.0}}),
        (SamplingOptions, {"logit_bias": {"1": 1.0}}),
        (SamplingOptions, {"logit_bias": [[1]]}),
        (SamplingOptions, {"logit_bias": {1: float("nan")}}),
        (SamplingOptions, {"logit_bias": dict.fromkeys(range(4097), 1.0)}),
        (StopOptions, {"strings": [""]}),
        (StopOptions, {"strings": ["x"] * 33}),
        (StopOptions, {"strings": ["x" * 4097]}),
        (StopOptions, {"regexes": [""]}),
        (StopOptions, {"regexes": ["é" * 129]}),
        (StopOptions, {"regexes": ["x"] * 33}),
        (StopOptions, {"token_ids": [-1]}),
        (StopOptions, {"token_ids": [1] * 1025}),
        (StopOptions, {"min_tokens": -1}),
        (LogprobOptions, {"top_count": 21}),
        (LogprobOptions, {"token_ids": [1] * 65}),
        (LogprobOptions, {"prompt_start": -2}),
    ],
)
def test_what_is_out_of_bounds_is_refused(model: type[Any], fields: dict[str, Any]) -> None:
    model()
    with pytest.raises(ValidationError):
        model.model_validate(fields)


def test_biases_travel_as_pairs() -> None:
    options = SamplingOptions(logit_bias={5: -1.5, 6: 2.0})
    dumped = options.model_dump()
    assert dumped["logit_bias"] == [(5, -1.5), (6, 2.0)]
    assert SamplingOptions.model_validate(dumped | {"logit_bias": [[5, -1.5], [6, 2.0]]}) == options
