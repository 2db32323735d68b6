"""What the fleet should run: the document that operators PUT, and the part of it that agents apply.

Field names, enum spellings and defaults are Paddler's, so that its clients work unchanged. Ranges are checked here,
once; `balancer.validation_sentences` says in words what was wrong. Whether a file exists is only known on the agents.
"""

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag
from pydantic.config import JsonDict
from pydantic_core import PydanticCustomError

from shared.generation import SamplingParameters

INT32_MAX = 2**31 - 1
UINT32_MAX = 2**32 - 1
MAX_PATH_CHARACTERS = 4096
MAX_TEMPLATE_CHARACTERS = 250_000
MAX_SERVED_NAMES = 64
MAX_LORA_ADAPTERS = 32
MAX_ADAPTER_NAME_CHARACTERS = 128

WHOLE_SENTENCE = "whole_sentence"
"""Type of the validation errors whose message is the complete sentence for the client."""

Path = Annotated[str, Field(min_length=1, max_length=MAX_PATH_CHARACTERS)]


class StrictModel(BaseModel):
    """No coercion, no unknown fields, no NaN; immutable."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


class KvCacheDtype(StrEnum):
    """Number formats of the KV cache."""

    F32 = "F32"
    F16 = "F16"
    BF16 = "BF16"
    Q8_0 = "Q8_0"
    Q4_0 = "Q4_0"
    Q4_1 = "Q4_1"
    IQ4_NL = "IQ4_NL"
    Q5_0 = "Q5_0"
    Q5_1 = "Q5_1"


class PoolingType(StrEnum):
    """How token embeddings become one vector (embeddings only)."""

    UNSPECIFIED = "Unspecified"
    NONE = "None"
    MEAN = "Mean"
    CLS = "Cls"
    LAST = "Last"
    RANK = "Rank"


class HuggingFaceFile(StrictModel):
    """A file of a repository on the Hugging Face hub."""

    filename: Path
    repo_id: Path
    revision: Path


class UrlFile(StrictModel):
    """A file behind an http or https address."""

    url: Path


class HuggingFaceSource(StrictModel):
    """`{"HuggingFace": {...}}`."""

    HuggingFace: HuggingFaceFile


class LocalToAgentSource(StrictModel):
    """`{"LocalToAgent": "/path"}`: a file on the agent's own disk."""

    LocalToAgent: Path


class UrlSource(StrictModel):
    """`{"Url": {"url": ...}}`."""

    Url: UrlFile


def _without_null(value: Any) -> Any:
    """Serde, which Paddler's clients speak, may also write a variant without data as `{"Variant": null}`."""
    if isinstance(value, dict) and len(value) == 1:
        ((variant, data),) = value.items()
        return variant if data is None else value
    return value


def _source_tag(value: Any) -> str | None:
    """Which kind of source this is, so that an error speaks of that kind only."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return str(next(iter(value))) if len(value) == 1 else None
    return type(value).__name__.removesuffix("Source")


ModelSource = Annotated[
    Annotated[Literal["None"], Tag("None")]
    | Annotated[LocalToAgentSource, Tag("LocalToAgent")]
    | Annotated[HuggingFaceSource, Tag("HuggingFace")]
    | Annotated[UrlSource, Tag("Url")],
    Discriminator(
        _source_tag,
        custom_error_type="model_source",
        custom_error_message='must be "None" or an object with one key: LocalToAgent, HuggingFace or Url',
    ),
    BeforeValidator(_without_null),
]

AdapterName = Annotated[str, Field(min_length=1, max_length=MAX_ADAPTER_NAME_CHARACTERS, pattern=r"^[A-Za-z0-9._/-]+$")]
LoraAdapters = Annotated[dict[AdapterName, LocalToAgentSource], Field(max_length=MAX_LORA_ADAPTERS)]
"""LoRA adapters by name. Names are of characters that a log line, a model id and an address can hold."""

# Enum values come as JSON strings, which strict mode would refuse for an enum class.
_Dtype = Annotated[KvCacheDtype, Field(strict=False), BeforeValidator(_without_null)]
_Pooling = Annotated[PoolingType, Field(strict=False), BeforeValidator(_without_null)]


def _require_positive_image_size(value: int) -> int:
    if value <= 0:
        raise PydanticCustomError(WHOLE_SENTENCE, "image_resize_to_fit must be greater than zero")
    return value


def _require_positive_batch_size(value: int) -> int:
    if value <= 0:
        raise PydanticCustomError(WHOLE_SENTENCE, "embedding_batch_size must be greater than zero")
    return value


# What the two above check in their own words, in a JSON schema's.
_POSITIVE: JsonDict = {"exclusiveMinimum": 0}


class InferenceParameters(StrictModel):
    """The 17 parameters of Paddler, all required in a PUT. Thirteen concern text and are honoured; the four for
    embeddings and images (`embedding_batch_size`, `enable_embeddings`, `image_resize_to_fit`, `pooling_type`) are
    validated, stored and shown."""

    n_batch: int = Field(ge=1, le=INT32_MAX)
    context_size: int = Field(ge=64, le=INT32_MAX)
    embedding_batch_size: Annotated[
        int, Field(le=INT32_MAX, json_schema_extra=_POSITIVE), AfterValidator(_require_positive_batch_size)
    ]
    enable_embeddings: bool
    image_resize_to_fit: Annotated[
        int, Field(le=UINT32_MAX, json_schema_extra=_POSITIVE), AfterValidator(_require_positive_image_size)
    ]
    k_cache_dtype: _Dtype
    v_cache_dtype: _Dtype
    min_p: float = Field(ge=0.0, le=1.0)
    n_gpu_layers: int = Field(ge=-1, le=INT32_MAX)
    penalty_frequency: float = Field(ge=-100.0, le=100.0)
    penalty_last_n: int = Field(ge=-1, le=INT32_MAX)
    penalty_presence: float = Field(ge=-100.0, le=100.0)
    penalty_repeat: float = Field(gt=0.0, le=100.0)
    pooling_type: _Pooling
    temperature: float = Field(ge=0.0, le=100.0)
    top_k: int = Field(ge=-1, le=INT32_MAX)
    top_p: float = Field(gt=0.0, le=1.0)

    def sampling(self) -> SamplingParameters:
        """The part that each request's sampler needs."""
        return SamplingParameters(
            temperature=self.temperature,
            top_k=self.top_k,
            top_p=self.top_p,
            min_p=self.min_p,
            penalty_last_n=self.penalty_last_n,
            penalty_frequency=self.penalty_frequency,
            penalty_presence=self.penalty_presence,
            penalty_repeat=self.penalty_repeat,
        )


DEFAULT_INFERENCE_PARAMETERS = InferenceParameters(
    n_batch=2048,
    context_size=8192,
    embedding_batch_size=256,
    enable_embeddings=False,
    image_resize_to_fit=1024,
    k_cache_dtype=KvCacheDtype.Q8_0,
    v_cache_dtype=KvCacheDtype.Q8_0,
    min_p=0.05,
    n_gpu_layers=0,
    penalty_frequency=0.0,
    penalty_last_n=-1,
    penalty_presence=0.8,
    penalty_repeat=1.1,
    pooling_type=PoolingType.LAST,
    temperature=0.8,
    top_k=80,
    top_p=0.8,
)


class ChatTemplate(StrictModel):
    """A Jinja chat template that replaces the model's own."""

    content: str = Field(max_length=MAX_TEMPLATE_CHARACTERS)


class AgentDesiredState(StrictModel):
    """What one agent should run ("applicable state"): the desired state with its switches resolved."""

    chat_template_override: ChatTemplate | None
    inference_parameters: InferenceParameters
    model: ModelSource
    multimodal_projection: ModelSource
    lora_adapters: LoraAdapters | None = None

    def document(self) -> dict[str, Any]:
        """As GET shows it: without what Paddler does not know while that is unset."""
        return self.model_dump(mode="json", exclude=_unset_extras(self))


class BalancerDesiredState(StrictModel):
    """The document of `GET` and `PUT /api/v1/balancer_desired_state`."""

    chat_template_override: ChatTemplate | None = None
    inference_parameters: InferenceParameters
    model: ModelSource
    multimodal_projection: ModelSource
    use_chat_template_override: bool
    served_model_names: Annotated[list[Path], Field(max_length=MAX_SERVED_NAMES)] | None = None
    lora_adapters: LoraAdapters | None = None

    def document(self) -> dict[str, Any]:
        """As GET shows it and stores keep it: keys in Paddler's order. Keys that Paddler does not know are absent
        while unset, since its clients refuse them."""
        return self.model_dump(mode="json", exclude=_unset_extras(self))

    def for_agents(self) -> AgentDesiredState:
        """The part that agents apply; the override only when it is switched on."""
        return AgentDesiredState(
            chat_template_override=self.chat_template_override if self.use_chat_template_override else None,
            inference_parameters=self.inference_parameters,
            model=self.model,
            multimodal_projection=self.multimodal_projection,
            lora_adapters=self.lora_adapters,
        )


def _unset_extras(state: StrictModel) -> set[str]:
    return {name for name in ("served_model_names", "lora_adapters") if getattr(state, name, None) is None}


DEFAULT_DESIRED_STATE = BalancerDesiredState(
    chat_template_override=None,
    inference_parameters=DEFAULT_INFERENCE_PARAMETERS,
    model="None",
    multimodal_projection="None",
    use_chat_template_override=False,
)
