"""What a client may ask of one generation beyond its prompt and its length: how tokens are drawn, what ends the answer,
and which log-probabilities come with it. Every default is what happens when nobody asks.

Sizes are bounded here, once for both sides. What depends on the vocabulary (are the ids in it?) only the agent knows.
"""

from typing import Annotated, Any, Final

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer

from shared.desired_state import INT32_MAX, StrictModel

MAX_STOPS: Final = 32
MAX_STOP_CHARACTERS: Final = 4096
MAX_REGEX_BYTES: Final = 256
MAX_STOP_TOKENS: Final = 1024
MAX_BIASES: Final = 4096
MAX_TOP_LOGPROBS: Final = 20
MAX_LOGPROB_TOKENS: Final = 64

TokenId = Annotated[int, Field(ge=0, le=INT32_MAX)]


def _pairs(value: Any) -> Any:
    """A map with numbers as keys does not pass msgpack, so it travels as a list of pairs."""
    if isinstance(value, list) and all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in value):
        return dict(value)
    return value


def _check_regex_size(pattern: str) -> str:
    if len(pattern.encode("utf-8", "surrogatepass")) > MAX_REGEX_BYTES:
        raise ValueError(f"a stop regex has at most {MAX_REGEX_BYTES} bytes")
    return pattern


LogitBias = Annotated[
    dict[TokenId, float],
    Field(max_length=MAX_BIASES),
    BeforeValidator(_pairs),
    PlainSerializer(lambda biases: list(biases.items())),
]
StopString = Annotated[str, Field(min_length=1, max_length=MAX_STOP_CHARACTERS)]
StopRegex = Annotated[str, Field(min_length=1), AfterValidator(_check_regex_size)]


class SamplingOptions(StrictModel):
    """How the next token is drawn; None: as the desired state says. Ranges are SGLang's (`reference-facts` 1.2).

    temperature 0: greedy. top_k -1: off. `logit_bias`: added to raw logits, by token id.
    `follows_sglang_order`: frequency and presence are subtracted before the repetition penalty scales, and top_k, top_p
    and min_p look at probabilities after the temperature (SGLang); in llama.cpp's order each is the other way round.
    `penalises_answer_only`: the penalties count generated tokens and not the prompt's.
    """

    temperature: Annotated[float, Field(ge=0.0)] | None = None
    top_k: Annotated[int, Field(ge=-1, le=INT32_MAX)] | None = None
    top_p: Annotated[float, Field(gt=0.0, le=1.0)] | None = None
    min_p: Annotated[float, Field(ge=0.0, le=1.0)] | None = None
    frequency_penalty: Annotated[float, Field(ge=-2.0, le=2.0)] | None = None
    presence_penalty: Annotated[float, Field(ge=-2.0, le=2.0)] | None = None
    repetition_penalty: Annotated[float, Field(gt=0.0, le=2.0)] | None = None
    logit_bias: LogitBias = Field(default_factory=dict)
    follows_sglang_order: bool = False
    penalises_answer_only: bool = False


class StopOptions(StrictModel):
    """What ends an answer before its limit, and which tokens have text.

    `strings`, `regexes`: the earliest match in the text ends it; its text is cut off unless `keeps_match`.
    `min_tokens`: before that many tokens nothing ends it but a complete constraint. `ignores_end`: neither the model's
    own end nor `token_ids` end it.
    """

    strings: Annotated[list[StopString], Field(max_length=MAX_STOPS)] = Field(default_factory=list)
    token_ids: Annotated[list[TokenId], Field(max_length=MAX_STOP_TOKENS)] = Field(default_factory=list)
    regexes: Annotated[list[StopRegex], Field(max_length=MAX_STOPS)] = Field(default_factory=list)
    keeps_match: bool = False
    min_tokens: Annotated[int, Field(ge=0, le=INT32_MAX)] = 0
    ignores_end: bool = False
    skips_special_tokens: bool = True
    spaces_between_special_tokens: bool = True


class LogprobOptions(StrictModel):
    """Log-softmax of the model's raw logits for each token; how it travels: `shared.logprobs`.

    `top_count`: likeliest tokens to name beside each. `token_ids`: tokens to name at each place whatever came.
    `prompt_start`: first token of the prompt to tell of (it has none at 0); -1: the answer only. `with_text`: pieces of
    text travel along with the ids.
    """

    top_count: Annotated[int, Field(ge=0, le=MAX_TOP_LOGPROBS)] = 0
    token_ids: Annotated[list[TokenId], Field(max_length=MAX_LOGPROB_TOKENS)] = Field(default_factory=list)
    prompt_start: Annotated[int, Field(ge=-1, le=INT32_MAX)] = -1
    with_text: bool = False
