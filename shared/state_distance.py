"""How far two states are apart: nothing to do, new settings, or another model in memory. Pure.

Agents decide by it what a new state costs, and the command line says it before the state is stored.
"""

from enum import Enum
from typing import Any

from shared.desired_state import AgentDesiredState

NEEDS_RELOAD = ("n_batch", "context_size", "k_cache_dtype", "v_cache_dtype", "n_gpu_layers")
"""A context or the weights depend on these parameters; each request reads the others anew."""


class Need(Enum):
    """What leads from the state that serves to another."""

    NOTHING = "nothing"
    SETTINGS = "settings"  # sampling parameters, template, projection, parameters that text does not use
    RELOAD = "reload"
    UNLOAD = "unload"


def what_is_needed(serving: AgentDesiredState | None, target: AgentDesiredState) -> Need:
    """`serving` is None when no model is loaded."""
    if target.model == "None":
        return Need.NOTHING if serving is None else Need.UNLOAD
    if serving is None or not same_load(serving, target):
        return Need.RELOAD
    return Need.NOTHING if serving == target else Need.SETTINGS


def same_load(one: AgentDesiredState, other: AgentDesiredState) -> bool:
    """Whether both states have the same weights and the same context."""
    if (one.lora_adapters or {}) != (other.lora_adapters or {}):
        return False  # llama.cpp takes adapters before the context is made only
    return one.model == other.model and _load_parameters(one) == _load_parameters(other)


def differs_only_in_sampling(one: AgentDesiredState, other: AgentDesiredState) -> bool:
    """Whether nothing has to be looked at before the other state is used."""
    return (
        one.chat_template_override == other.chat_template_override
        and one.multimodal_projection == other.multimodal_projection
    )


def _load_parameters(state: AgentDesiredState) -> tuple[Any, ...]:
    return tuple(getattr(state.inference_parameters, name) for name in NEEDS_RELOAD)
