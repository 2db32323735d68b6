"""Each fault is one sentence that begins with the field and never repeats what the client sent."""

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from balancer.validation_sentences import MAX_SENTENCES, fault_sentences
from shared.desired_state import DEFAULT_DESIRED_STATE, BalancerDesiredState


def sentences(model: type[BaseModel], document: object) -> list[str]:
    with pytest.raises(ValidationError) as caught:
        model.model_validate(document)
    return fault_sentences(caught.value)


def sentences_of_state(**changes: object) -> list[str]:
    document: dict[str, Any] = DEFAULT_DESIRED_STATE.document()
    parameters = document["inference_parameters"]
    for key, value in changes.items():
        (parameters if key in parameters else document)[key] = value
    return sentences(BalancerDesiredState, document)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"n_batch": 0}, "inference_parameters.n_batch: must be at least 1"),
        ({"context_size": 63}, "inference_parameters.context_size: must be at least 64"),
        ({"n_batch": 2**31}, "inference_parameters.n_batch: must be at most 2147483647"),
        ({"n_batch": 1.5}, "inference_parameters.n_batch: must be an integer"),
        ({"n_batch": True}, "inference_parameters.n_batch: must be an integer"),
        ({"n_batch": "5"}, "inference_parameters.n_batch: must be an integer"),
        ({"top_p": 0.0}, "inference_parameters.top_p: must be greater than 0"),
        ({"temperature": "hot"}, "inference_parameters.temperature: must be a number"),
        ({"temperature": float("nan")}, "inference_parameters.temperature: must be a finite number"),
        ({"enable_embeddings": 1}, "inference_parameters.enable_embeddings: must be true or false"),
        (
            {"pooling_type": "last"},
            "inference_parameters.pooling_type: must be one of 'Unspecified', 'None', 'Mean', 'Cls', 'Last' or 'Rank'",
        ),
        ({"model": "none"}, 'model: must be "None" or an object with one key: LocalToAgent, HuggingFace or Url'),
        ({"model": {"LocalToAgent": ""}}, "model.LocalToAgent: must not be empty"),
        ({"model": {"Url": {}}}, "model.Url.url: is required"),
        ({"chat_template_override": "x"}, "chat_template_override: must be an object"),
        ({"served_model_names": ["a", 1]}, "served_model_names.1: must be a string"),
        ({"served_model_names": ["a"] * 65}, "served_model_names: must have at most 64 entries"),
        ({"lora_adapters": {"a": {"LocalToAgent": ""}}}, "lora_adapters.a.LocalToAgent: must not be empty"),
        ({"lora_adapters": {"a": {}}}, "lora_adapters.a.LocalToAgent: is required"),
        ({"lora_adapters": []}, "lora_adapters: must be an object"),
        ({"wrong": 1}, "wrong: is not a known field"),
        # Paddler's own two, to the letter.
        ({"image_resize_to_fit": 0}, "image_resize_to_fit must be greater than zero"),
        ({"embedding_batch_size": 0}, "embedding_batch_size must be greater than zero"),
    ],
)
def test_the_sentence_says_what_to_change(changes: dict[str, object], sentence: str) -> None:
    assert sentences_of_state(**changes) == [sentence]


def test_every_fault_has_its_sentence() -> None:
    assert sentences_of_state(n_batch=0, context_size=1, wrong=1) == [
        "inference_parameters.n_batch: must be at least 1",
        "inference_parameters.context_size: must be at least 64",
        "wrong: is not a known field",
    ]


def test_there_are_at_most_so_many_and_the_rest_is_counted() -> None:
    found = sentences_of_state(**{f"wrong_{index}": 1 for index in range(100)})
    assert len(found) == MAX_SENTENCES + 1
    assert found[-1] == f"and {100 - MAX_SENTENCES} more faults"


def test_names_of_unknown_fields_are_shortened_and_made_harmless() -> None:
    assert sentences_of_state(**{"a\r\nb": 1}) == ["a??b: is not a known field"]
    (sentence,) = sentences_of_state(**{"a" * 5000: 1})
    assert len(sentence) < 100


def test_what_the_client_sent_is_not_repeated() -> None:
    secret = "hunter2-hunter2"
    everything = sentences_of_state(
        n_batch=secret, temperature=secret, pooling_type=secret, model={"LocalToAgent": [secret]}
    )
    assert len(everything) == 4
    assert secret not in " ".join(everything)


def test_a_document_that_is_no_object_is_said_to_be_none() -> None:
    assert sentences(BalancerDesiredState, []) == ["the document must be an object"]


def test_text_that_is_no_json_is_one_sentence() -> None:
    with pytest.raises(ValidationError) as caught:
        BalancerDesiredState.model_validate_json("{")
    (sentence,) = fault_sentences(caught.value)
    assert sentence.startswith("the body is not valid JSON: ")
