"""Which names a model answers to: never a path."""

from typing import Any

import pytest

from balancer.served_models import (
    ChosenAdapter,
    choose_adapter,
    model_ids_with_adapters,
    refuse_unknown_model,
    served_model_ids,
)
from shared.desired_state import DEFAULT_DESIRED_STATE, BalancerDesiredState
from shared.failures import Failure, FailureKind


def state(**fields: Any) -> BalancerDesiredState:
    return BalancerDesiredState.model_validate({**DEFAULT_DESIRED_STATE.document(), **fields})


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ({"LocalToAgent": "/srv/models/Tiny-1.5B.Q4.gguf"}, "Tiny-1.5B.Q4"),
        ({"LocalToAgent": "C:\\models\\tiny.GGUF"}, "tiny"),
        ({"LocalToAgent": "/m/big-00001-of-00003.gguf"}, "big"),
        ({"LocalToAgent": "/m/.gguf"}, "model"),
        ({"HuggingFace": {"filename": "q/tiny.gguf", "repo_id": "a/b", "revision": "main"}}, "tiny"),
        ({"Url": {"url": "https://models.example.com/a%20b.gguf?token=secret"}}, "a b"),
    ],
)
def test_without_names_it_is_the_files(model: dict[str, Any], name: str) -> None:
    assert served_model_ids(state(model=model)) == (name,)


def test_names_of_the_operator_replace_it() -> None:
    named = state(model={"LocalToAgent": "/m/tiny.gguf"}, served_model_names=["GLM-5.1", "default"])
    assert served_model_ids(named) == ("GLM-5.1", "default")
    assert refuse_unknown_model("default", named) is None
    failure = refuse_unknown_model("tiny", named)
    assert failure == Failure(
        FailureKind.MODEL_NOT_FOUND, "The model 'tiny' does not exist; this fleet serves GLM-5.1, default", "model"
    )


@pytest.mark.parametrize("wanted", [None, DEFAULT_DESIRED_STATE, state(served_model_names=["a"])])
def test_no_model_no_name(wanted: BalancerDesiredState | None) -> None:
    assert served_model_ids(wanted) == ()
    failure = refuse_unknown_model("a", wanted)
    assert failure is not None
    assert failure.message == "The model 'a' does not exist; this fleet serves no model now"


def test_a_name_is_shown_short_and_printable() -> None:
    failure = refuse_unknown_model("\x00" + "x" * 5000, None)
    assert failure is not None
    assert failure.message.startswith("The model '?xxx")
    assert len(failure.message) < 256


ADAPTERS = {"poet": {"LocalToAgent": "/a/poet.gguf"}, "latest": {"LocalToAgent": "/a/latest.gguf"}}
TUNED = state(
    model={"LocalToAgent": "/m/tiny.gguf"}, served_model_names=["tiny", "tiny:latest"], lora_adapters=ADAPTERS
)


def test_each_id_is_listed_with_each_adapter() -> None:
    ids = ("tiny", "tiny:latest", "tiny:poet", "tiny:latest", "tiny:latest:poet", "tiny:latest:latest")
    assert set(model_ids_with_adapters(TUNED)) == set(ids)
    assert len(model_ids_with_adapters(TUNED)) == len(set(ids))
    assert model_ids_with_adapters(None) == ()
    assert refuse_unknown_model("tiny:poet", TUNED) is None
    failure = refuse_unknown_model("tiny:nobody", TUNED)
    assert failure is not None
    assert failure.kind is FailureKind.MODEL_NOT_FOUND


@pytest.mark.parametrize(
    ("model", "lora_path", "adapter"),
    [
        ("tiny", None, None),
        ("tiny", "poet", "poet"),
        ("tiny:poet", None, "poet"),
        ("tiny:poet", "poet", "poet"),
        ("tiny:latest", None, None),  # a model's own name comes first
        ("tiny:latest", "latest", "latest"),
        ("tiny:latest:latest", None, "latest"),
    ],
)
def test_model_and_lora_path_choose_an_adapter(model: str, lora_path: str | None, adapter: str | None) -> None:
    assert choose_adapter(model, lora_path, TUNED) == ChosenAdapter(adapter)


@pytest.mark.parametrize(
    ("model", "lora_path", "wanted", "words"),
    [
        ("tiny", "nobody", TUNED, "is the name of no adapter of the desired state; there are poet, latest"),
        ("tiny", "", TUNED, "is the name of no adapter of the desired state; there are poet, latest"),
        ("tiny:poet", "latest", TUNED, "must agree with model, which asks for poet"),
        ("tiny", "poet", state(model={"LocalToAgent": "/m/tiny.gguf"}), "of the desired state; there are none"),
    ],
)
def test_an_adapter_that_cannot_be_had_is_refused(
    model: str, lora_path: str, wanted: BalancerDesiredState, words: str
) -> None:
    failure = choose_adapter(model, lora_path, wanted)
    assert isinstance(failure, Failure)
    assert (failure.kind, failure.parameter) == (FailureKind.INVALID_REQUEST, "lora_path")
    assert words in failure.message
