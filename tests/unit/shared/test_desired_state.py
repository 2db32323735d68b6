"""The desired state is Paddler's, taken as written: no coercion, no unknown fields, the same numbers back."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from shared.desired_state import (
    DEFAULT_DESIRED_STATE,
    BalancerDesiredState,
    ChatTemplate,
    KvCacheDtype,
    LocalToAgentSource,
    PoolingType,
)

# What Paddler's balancer shows before anybody has set anything.
PADDLER_DEFAULT: dict[str, Any] = {
    "chat_template_override": None,
    "inference_parameters": {
        "n_batch": 2048,
        "context_size": 8192,
        "embedding_batch_size": 256,
        "enable_embeddings": False,
        "image_resize_to_fit": 1024,
        "k_cache_dtype": "Q8_0",
        "v_cache_dtype": "Q8_0",
        "min_p": 0.05,
        "n_gpu_layers": 0,
        "penalty_frequency": 0.0,
        "penalty_last_n": -1,
        "penalty_presence": 0.8,
        "penalty_repeat": 1.1,
        "pooling_type": "Last",
        "temperature": 0.8,
        "top_k": 80,
        "top_p": 0.8,
    },
    "model": "None",
    "multimodal_projection": "None",
    "use_chat_template_override": False,
}

MODEL_SOURCES = [
    "None",
    {"LocalToAgent": "/models/tiny.gguf"},
    {"HuggingFace": {"filename": "tiny-Q8_0.gguf", "repo_id": "org/tiny-GGUF", "revision": "main"}},
    {"Url": {"url": "http://10.0.0.5/tiny.gguf"}},
]


def changed(**changes: object) -> dict[str, Any]:
    """The default document with some keys replaced, in the parameters where they have that key."""
    parameters = dict(PADDLER_DEFAULT["inference_parameters"])
    document = {**PADDLER_DEFAULT, "inference_parameters": parameters}
    for key, value in changes.items():
        (parameters if key in parameters else document)[key] = value
    return document


def without(key: str) -> dict[str, Any]:
    document = changed()
    for part in (document, document["inference_parameters"]):
        part.pop(key, None)
    return document


def parse(document: dict[str, Any]) -> BalancerDesiredState:
    return BalancerDesiredState.model_validate(document)


def refuses(document: dict[str, Any]) -> bool:
    try:
        parse(document)
    except ValidationError:
        return True
    return False


def test_the_default_is_paddlers_key_by_key_in_its_order() -> None:
    document = DEFAULT_DESIRED_STATE.document()
    assert document == PADDLER_DEFAULT
    assert list(document) == list(PADDLER_DEFAULT)
    assert list(document["inference_parameters"]) == list(PADDLER_DEFAULT["inference_parameters"])


@pytest.mark.parametrize("source", MODEL_SOURCES)
def test_each_source_comes_back_as_it_was_written(source: object) -> None:
    assert parse(changed(model=source, multimodal_projection=source)).document() == changed(
        model=source, multimodal_projection=source
    )


@pytest.mark.parametrize("key", [*PADDLER_DEFAULT["inference_parameters"], "model", "multimodal_projection"])
def test_every_key_is_required(key: str) -> None:
    assert refuses(without(key))


def test_only_the_override_may_be_missing_and_is_null_then() -> None:
    assert parse(without("chat_template_override")).document() == PADDLER_DEFAULT
    assert refuses(without("use_chat_template_override"))


@pytest.mark.parametrize("value", [True, 1.0, "5", None, [], 1.5])
@pytest.mark.parametrize(
    "key",
    [
        "n_batch",
        "context_size",
        "embedding_batch_size",
        "image_resize_to_fit",
        "n_gpu_layers",
        "penalty_last_n",
        "top_k",
    ],
)
def test_an_integer_is_an_integer(key: str, value: object) -> None:
    assert refuses(changed(**{key: value}))


@pytest.mark.parametrize("value", [True, "0.5", None, float("nan"), float("inf")])
@pytest.mark.parametrize(
    "key",
    ["min_p", "penalty_frequency", "penalty_presence", "penalty_repeat", "temperature", "top_p"],
)
def test_a_number_is_a_finite_number(key: str, value: object) -> None:
    assert refuses(changed(**{key: value}))


@pytest.mark.parametrize("key", ["enable_embeddings", "use_chat_template_override"])
@pytest.mark.parametrize("value", [0, 1, "true", None])
def test_a_switch_is_true_or_false(key: str, value: object) -> None:
    assert refuses(changed(**{key: value}))


@pytest.mark.parametrize("value", [1, True, "q8_0", "Q8_1", "", None, {"Q8_0": 1}])
def test_a_cache_type_is_one_of_nine_words(value: object) -> None:
    assert refuses(changed(k_cache_dtype=value))
    assert refuses(changed(v_cache_dtype=value))


def test_every_word_of_both_enums_is_taken() -> None:
    for dtype in KvCacheDtype:
        assert parse(changed(k_cache_dtype=dtype.value)).inference_parameters.k_cache_dtype is dtype
    for pooling in PoolingType:
        assert parse(changed(pooling_type=pooling.value)).inference_parameters.pooling_type is pooling


def test_a_variant_without_data_may_be_written_as_an_object_with_null() -> None:
    document = changed(model={"None": None}, pooling_type={"Mean": None}, k_cache_dtype={"F16": None})
    assert parse(document).document() == changed(model="None", pooling_type="Mean", k_cache_dtype="F16")


@pytest.mark.parametrize(
    "source",
    [
        None,
        "none",
        "LocalToAgent",
        {},
        [],
        {"LocalToAgent": ""},
        {"LocalToAgent": 5},
        {"LocalToAgent": "/a", "Url": {"url": "b"}},
        {"Url": {"url": "a", "more": 1}},
        {"Url": "http://a"},
        {"HuggingFace": {"filename": "a", "repo_id": "b"}},
        {"None": 3},
        {"Ftp": "/a"},
    ],
)
def test_what_is_no_source_is_refused(source: object) -> None:
    assert refuses(changed(model=source))


@pytest.mark.parametrize(
    ("key", "lowest", "highest"),
    [
        ("n_batch", 1, 2**31 - 1),
        ("context_size", 64, 2**31 - 1),
        ("embedding_batch_size", 1, 2**31 - 1),
        ("image_resize_to_fit", 1, 2**32 - 1),
        ("n_gpu_layers", -1, 2**31 - 1),
        ("penalty_last_n", -1, 2**31 - 1),
        ("top_k", -1, 2**31 - 1),
    ],
)
def test_ranges_of_integers_include_their_ends(key: str, lowest: int, highest: int) -> None:
    assert not refuses(changed(**{key: lowest}))
    assert not refuses(changed(**{key: highest}))
    assert refuses(changed(**{key: lowest - 1}))
    assert refuses(changed(**{key: highest + 1}))


def test_unknown_fields_are_refused_at_every_level() -> None:
    assert refuses({**PADDLER_DEFAULT, "note": 1})
    assert refuses({**PADDLER_DEFAULT, "inference_parameters": {**PADDLER_DEFAULT["inference_parameters"], "seed": 1}})
    assert refuses(changed(chat_template_override={"content": "", "note": 1}))


@given(
    temperature=st.floats(0, 100),
    min_p=st.floats(0, 1),
    penalty=st.floats(-100, 100),
    top_k=st.integers(-1, 2**31 - 1),
)
def test_every_number_comes_back_as_it_was_put(temperature: float, min_p: float, penalty: float, top_k: int) -> None:
    document = changed(temperature=temperature, min_p=min_p, penalty_presence=penalty, top_k=top_k)
    stored = parse(document).model_dump_json()
    assert BalancerDesiredState.model_validate_json(stored).document() == document


def test_the_names_under_which_it_is_served_are_absent_while_unset() -> None:
    assert "served_model_names" not in parse(changed()).document()
    assert parse(changed(served_model_names=["small"])).document()["served_model_names"] == ["small"]
    assert refuses(changed(served_model_names=["a"] * 65))


def test_adapters_are_absent_while_unset_and_bounded() -> None:
    adapters = {"poet/v1.2": {"LocalToAgent": "/a/poet.gguf"}}
    state = parse(changed(lora_adapters=adapters))
    assert state.document()["lora_adapters"] == adapters
    assert state.for_agents().document()["lora_adapters"] == adapters
    assert "lora_adapters" not in parse(changed()).document()
    for wrong in ({"": "x"}, {"a b": "x"}, {"a:b": "x"}, {"x" * 129: "x"}, {str(number): "x" for number in range(33)}):
        assert refuses(changed(lora_adapters={name: {"LocalToAgent": path} for name, path in wrong.items()})), wrong
    assert refuses(changed(lora_adapters={"a": {"Url": {"url": "http://a/b"}}}))
    assert refuses(changed(lora_adapters={"a\n": {"LocalToAgent": "/a"}}))


def test_agents_get_the_override_only_when_it_is_switched_on() -> None:
    template = ChatTemplate(content="{{ messages }}")
    off = parse(changed(chat_template_override={"content": template.content}))
    on = off.model_copy(update={"use_chat_template_override": True})
    assert off.for_agents().chat_template_override is None
    assert on.for_agents().chat_template_override == template
    assert list(on.for_agents().document()) == [
        "chat_template_override",
        "inference_parameters",
        "model",
        "multimodal_projection",
    ]


def test_a_state_cannot_be_changed_in_place() -> None:
    with pytest.raises(ValidationError):
        DEFAULT_DESIRED_STATE.model = LocalToAgentSource(LocalToAgent="/a")  # type: ignore[misc]
