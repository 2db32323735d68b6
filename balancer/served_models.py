"""Which names the fleet's model answers to, by the wanted state, even while the old model still serves. Pure."""

import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final
from urllib.parse import unquote, urlsplit

from shared.desired_state import (
    BalancerDesiredState,
    HuggingFaceSource,
    LocalToAgentSource,
    UrlSource,
)
from shared.failures import Failure, FailureKind

_SPLIT_SUFFIX: Final = re.compile(r"-\d{5}-of-\d{5}$")  # what llama.cpp appends to the names of a model's parts
_MAX_SHOWN_CHARACTERS: Final = 128


def served_model_ids(state: BalancerDesiredState | None) -> tuple[str, ...]:
    """`served_model_names` when set, else the file's name without its ending; nothing while no model is wanted."""
    if state is None or state.model == "None":
        return ()
    if state.served_model_names:
        return tuple(state.served_model_names)
    return (_file_name(state.model),)


def model_ids_with_adapters(state: BalancerDesiredState | None) -> tuple[str, ...]:
    """The served ids, then `id:adapter` for each of them and each LoRA adapter."""
    served = served_model_ids(state)
    adapters = (state.lora_adapters or {}) if state is not None else {}
    return tuple(dict.fromkeys((*served, *(f"{name}:{adapter}" for name in served for adapter in adapters))))


@dataclass(frozen=True, slots=True)
class ChosenAdapter:
    """`name` as in the desired state; None: the model as it is."""

    name: str | None


def choose_adapter(model: str, lora_path: str | None, state: BalancerDesiredState | None) -> ChosenAdapter | Failure:
    """The adapter that a request asks for by `id:adapter`, by `lora_path` or by both. `model` is a known one."""
    adapters = (state.lora_adapters or {}) if state is not None else {}
    served = served_model_ids(state)
    in_model = None
    if model not in served:  # an id may end like an adapter's
        in_model = next((name for name in adapters for one in served if model == f"{one}:{name}"), None)
    if lora_path is None or lora_path == in_model:
        return ChosenAdapter(in_model)
    if lora_path not in adapters:
        known = f"; there are {', '.join(list(adapters)[:8])}" if adapters else "; there are none"
        sentence = f"lora_path: is the name of no adapter of the desired state{known}"
        return Failure(FailureKind.INVALID_REQUEST, sentence, "lora_path")
    if in_model is not None:
        sentence = f"lora_path: must agree with model, which asks for {in_model}"
        return Failure(FailureKind.INVALID_REQUEST, sentence, "lora_path")
    return ChosenAdapter(lora_path)


def refuse_unknown_model(name: str, state: BalancerDesiredState | None) -> Failure | None:
    """Why a request for this model, or model with adapter, cannot be served, if it cannot."""
    served = model_ids_with_adapters(state)
    if name in served:
        return None
    known = f"; this fleet serves {', '.join(served[:8])}" if served else "; this fleet serves no model now"
    # In code points that print: the name is the client's.
    shown = "".join(one if one.isprintable() else "?" for one in name[:_MAX_SHOWN_CHARACTERS])
    return Failure(FailureKind.MODEL_NOT_FOUND, f"The model '{shown}' does not exist{known}", "model")


def _file_name(source: LocalToAgentSource | HuggingFaceSource | UrlSource | str) -> str:
    """Never a path: a client has no business with where files lie."""
    if isinstance(source, LocalToAgentSource):
        path = source.LocalToAgent
    elif isinstance(source, HuggingFaceSource):
        path = source.HuggingFace.filename
    elif isinstance(source, UrlSource):
        path = unquote(urlsplit(source.Url.url).path)
    else:
        raise AssertionError("no model has no file")
    name = PurePosixPath(path.replace("\\", "/")).name
    stem = name[: -len(".gguf")] if name.lower().endswith(".gguf") else name
    return _SPLIT_SUFFIX.sub("", stem) or "model"
