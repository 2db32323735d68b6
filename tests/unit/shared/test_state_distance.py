"""What leads from one state to another: nothing, new settings, a load, an unload."""

from typing import Any

import pytest

from shared.desired_state import DEFAULT_DESIRED_STATE, AgentDesiredState, InferenceParameters
from shared.state_distance import NEEDS_RELOAD, Need, differs_only_in_sampling, what_is_needed


def state(model: Any = {"LocalToAgent": "/a.gguf"}, **parameters: Any) -> AgentDesiredState:  # noqa: B006
    document = {**DEFAULT_DESIRED_STATE.for_agents().document(), "model": model}
    document["inference_parameters"] = {**document["inference_parameters"], **parameters}
    return AgentDesiredState.model_validate(document)


OTHER = {
    "n_batch": 7,
    "context_size": 100,
    "k_cache_dtype": "F32",
    "v_cache_dtype": "F32",
    "n_gpu_layers": 1,
    "pooling_type": "Mean",
    "enable_embeddings": True,
}


@pytest.mark.parametrize("name", list(InferenceParameters.model_fields))
def test_a_parameter_needs_a_reload_or_only_settings(name: str) -> None:
    changed = state(**{name: OTHER.get(name, 1)})
    assert what_is_needed(state(), changed) is (Need.RELOAD if name in NEEDS_RELOAD else Need.SETTINGS)
    assert differs_only_in_sampling(state(), changed)


def test_from_nothing_and_to_nothing() -> None:
    assert what_is_needed(None, state()) is Need.RELOAD
    assert what_is_needed(None, state("None")) is Need.NOTHING
    assert what_is_needed(state(), state("None")) is Need.UNLOAD
    assert what_is_needed(state(), state()) is Need.NOTHING


def test_a_template_has_to_be_looked_at() -> None:
    with_template = state().model_copy(update={"chat_template_override": {"content": "x"}})
    assert not differs_only_in_sampling(state(), with_template)
    assert what_is_needed(state(), with_template) is Need.SETTINGS
