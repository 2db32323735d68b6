"""The one table of `/v1/completions`: each field's name, range, default and meaning, and what is refused. Pure.

Fields and defaults are those of the seed's two tables; ranges are SGLang's. `null` means the default everywhere. What
holds between fields is checked in `completions_dialect`.
"""

import re
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from balancer import foreign_words
from balancer.completions_constraint import OBJECTS_AS_TEXT
from balancer.completions_prompts import Prompts
from shared.desired_state import INT32_MAX, StrictModel
from shared.generation_options import (
    MAX_BIASES,
    MAX_LOGPROB_TOKENS,
    MAX_REGEX_BYTES,
    MAX_STOP_CHARACTERS,
    MAX_STOP_TOKENS,
    MAX_STOPS,
    MAX_TOP_LOGPROBS,
    TokenId,
)
from shared.messages_to_agent import MAX_ADAPTER_NAME_CHARACTERS

MAX_NAME_CHARACTERS: Final = 4096
MAX_CHOICES: Final = 128

_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_NEVER_RUN: Final = "is not run by Steersman; leave it out"


def _allow_nulls(schema: dict[str, Any]) -> None:
    """Says in a model's JSON schema what `_drop_nulls` does."""
    required = schema.get("required", [])
    for name, one in schema["properties"].items():
        kinds = one.get("anyOf", [one])
        if name not in required and {"type": "null"} not in kinds:
            about = {word: one.pop(word) for word in ("title", "description", "default") if word in one}
            schema["properties"][name] = {"anyOf": [*one.get("anyOf", [one]), {"type": "null"}], **about}


class NullIsDefault(StrictModel):
    """A body in which a known field may be null: that is as if it were not there."""

    model_config = ConfigDict(json_schema_extra=_allow_nulls)

    @model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {name: one for name, one in value.items() if one is not None or name not in cls.model_fields}


def fault(words: str) -> PydanticCustomError:
    """A fault in our own words, to stand behind the field's name; no braces in them."""
    return PydanticCustomError("field", words)


def _one_or_many(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _without_nulls(value: Any) -> Any:
    return [one for one in value if one is not None] if isinstance(value, list) else value


def _biases(value: Any) -> Any:
    """JSON has no numbers as keys: `{"5": -100}`."""
    if not isinstance(value, dict):
        raise fault("must be an object from token ids to numbers")
    biases: dict[int, Any] = {}
    for key, bias in value.items():
        if isinstance(key, str) and not (key.isascii() and key.isdigit() and len(key) <= len(str(INT32_MAX))):
            raise fault("must have token ids as keys, such as 50256")
        if type(bias) not in (int, float):
            raise fault("must have numbers as values")
        if int(key) in biases:
            raise fault("must have each token id once, also with zeros in front of it")
        biases[int(key)] = float(bias)
    return biases


def _check_top_k(value: int) -> int:
    if value == 0:
        raise fault("must be -1 (off) or at least 1")
    return value


TopK = Annotated[int, Field(ge=-1, le=INT32_MAX, json_schema_extra={"not": {"const": 0}}), AfterValidator(_check_top_k)]
"""-1: off; 0 would choose from nothing."""


def _check_regex(value: str) -> str:
    if len(value.encode()) > MAX_REGEX_BYTES:
        raise fault(f"must have at most {MAX_REGEX_BYTES} bytes")
    return value


def _check_request_id(value: str) -> str:
    if not _REQUEST_ID.fullmatch(value):
        raise fault("must have 1 to 128 letters, digits or . _ : -")
    return value


def _text_or_object(value: Any) -> Any:
    if not isinstance(value, str):
        raise fault("must be a string or an object")
    return value


def _object(value: Any) -> Any:
    if not isinstance(value, str) or not value.startswith("{"):  # an object has become its text
        raise fault("must be an object")
    return value


def _never(value: Any) -> Any:
    raise fault(_NEVER_RUN)


def _only_false(value: Any) -> Any:
    if value is not False:
        raise fault(_NEVER_RUN)
    return value


def _only_null(value: Any) -> Any:
    raise fault("must be null")


Text = Annotated[str, Field(max_length=MAX_NAME_CHARACTERS)]
Penalty = Annotated[float, Field(ge=-2.0, le=2.0)]
Stop = Annotated[str, Field(min_length=1, max_length=MAX_STOP_CHARACTERS)]
Stops = Annotated[
    list[Stop],
    Field(max_length=MAX_STOPS),
    BeforeValidator(_one_or_many, json_schema_input_type=Stop | Annotated[list[Stop], Field(max_length=MAX_STOPS)]),
]
Regex = Annotated[str, Field(min_length=1), AfterValidator(_check_regex)]
Regexes = Annotated[
    list[Regex],
    Field(max_length=MAX_STOPS),
    BeforeValidator(_one_or_many, json_schema_input_type=Regex | Annotated[list[Regex], Field(max_length=MAX_STOPS)]),
]
StopTokens = Annotated[
    list[TokenId],
    Field(max_length=MAX_STOP_TOKENS),
    BeforeValidator(
        _without_nulls, json_schema_input_type=Annotated[list[TokenId | None], Field(max_length=MAX_STOP_TOKENS)]
    ),
]
Biases = Annotated[
    dict[TokenId, float],
    Field(max_length=MAX_BIASES, json_schema_extra={"propertyNames": {"pattern": "^[0-9]{1,10}$"}}),
    BeforeValidator(_biases),
]
JsonText = Annotated[str, BeforeValidator(_text_or_object, json_schema_input_type=str | dict[str, Any])]
NeverRun = Annotated[None, BeforeValidator(_never, json_schema_input_type=None)]
OnlyFalse = Annotated[bool, BeforeValidator(_only_false, json_schema_input_type=Literal[False])]


class StreamOptions(NullIsDefault):
    """`stream_options`."""

    include_usage: bool = False


class CompletionBody(NullIsDefault):
    """The body of `POST /v1/completions`."""

    # Every `description` is a row of docs/completions.md.

    OBJECTS_AS_TEXT: ClassVar = OBJECTS_AS_TEXT
    FOREIGN_WORDS: ClassVar = foreign_words.COMPLETIONS

    # The seed's first table
    model: Text = Field(min_length=1, description="a served model's id")
    prompt: Prompts = Field(description="token ids, or a list of such lists; used as they are given")
    max_tokens: int = Field(16, ge=1, le=INT32_MAX, description="the most tokens of an answer")
    min_tokens: int = Field(0, ge=0, le=INT32_MAX, description="before that many nothing ends it but a constraint")
    temperature: float = Field(1.0, ge=0.0, description="0: the likeliest token each time")
    top_p: float = Field(1.0, gt=0.0, le=1.0, description="the fewest tokens of that probability together; 1: off")
    top_k: TopK = Field(-1, description="the likeliest tokens; -1: off")
    min_p: float = Field(0.0, ge=0.0, le=1.0, description="relative to the likeliest token's probability; 0: off")
    frequency_penalty: Penalty = Field(0.0, description="per occurrence in the answer")
    presence_penalty: Penalty = Field(0.0, description="once for a token in the answer")
    repetition_penalty: float = Field(1.0, gt=0.0, le=2.0, description="scales logits of tokens in the answer, last")
    stop: Stops = Field([], description="a string or up to 32; the earliest in the text ends it and is cut off")
    stop_token_ids: StopTokens = Field([], description="any of these tokens ends it; its text is cut off")
    stream: bool = Field(False, description="server-sent events as the answer comes")
    ebnf: str | None = Field(None, description="a grammar in XGrammar's EBNF")
    regex: str | None = Field(None, description="matches the whole answer")
    json_schema: JsonText | None = Field(None, description="a JSON schema, an object or its text")
    logit_bias: Biases = Field({}, description="added to raw logits, by token id")
    n: int = Field(1, ge=1, le=MAX_CHOICES, description="answers to each prompt")
    skip_special_tokens: bool = Field(True, description="special tokens have no text")

    # The seed's second list
    ignore_eos: bool = Field(False, description="neither the model's end nor stop_token_ids end it")
    no_stop_trim: bool = Field(False, description="what ended the answer stays in its text")
    spaces_between_special_tokens: bool = Field(True, description="a space between special tokens that are shown")
    stop_regex: Regexes = Field([], description="a pattern or up to 32; a match in the text ends it and is cut off")
    structural_tag: JsonText | None = Field(None, description="free text with constrained regions, SGLang's two forms")
    lora_path: Annotated[str, Field(max_length=MAX_ADAPTER_NAME_CHARACTERS)] | None = Field(
        None, description="an adapter of the desired state, by name"
    )
    priority: int = Field(0, ge=-100, le=100, description="larger is sooner")
    rid: Annotated[str, AfterValidator(_check_request_id)] | None = Field(None, description="the answer's id")
    return_logprob: bool = Field(False, description="log-probabilities under choices[].meta_info")
    logprob_start_len: int = Field(-1, ge=-1, le=INT32_MAX, description="first prompt token to tell of; -1: none")
    top_logprobs_num: int = Field(0, ge=0, le=MAX_TOP_LOGPROBS, description="likeliest tokens at each place")
    token_ids_logprob: Annotated[list[TokenId], Field(max_length=MAX_LOGPROB_TOKENS)] = Field(
        [], description="tokens to tell of at each place"
    )
    return_text_in_logprobs: bool = Field(False, description="tokens' texts in meta_info")
    custom_params: NeverRun = Field(None, description="only null")
    custom_logit_processor: NeverRun = Field(None, description="only null: it is code")
    return_hidden_states: OnlyFalse = Field(False, description="only false")
    return_routed_experts: OnlyFalse = Field(False, description="only false")

    # OpenAI's further fields
    response_format: Annotated[str, BeforeValidator(_object, json_schema_input_type=dict[str, Any])] | None = Field(
        None, description="text, json_object, json_schema or structural_tag"
    )
    logprobs: int | None = Field(
        None, ge=0, le=MAX_TOP_LOGPROBS, description="OpenAI's shape, with that many likeliest"
    )
    echo: bool = Field(False, description="the prompt's text first")
    seed: int | None = Field(None, ge=-(2**63), le=2**64 - 1, description="the same seed: the same draws")
    stream_options: StreamOptions | None = Field(None, description="include_usage: one last chunk with usage")
    return_token_ids: bool = Field(False, description="choices[].token_ids and prompt_token_ids")
    best_of: int | None = Field(None, description="only n")
    suffix: Annotated[None, BeforeValidator(_only_null, json_schema_input_type=None)] = Field(
        None, description="only null"
    )
    user: Text | None = Field(None, description="yours; logged as a hash")
