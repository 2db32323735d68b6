"""LoRA adapters of a loaded model, by name. They are freed with it."""

from collections.abc import Mapping

import llama_cpp

from agent.llama.errors import ModelCannotBeLoaded
from agent.llama.library import collected_errors, reason
from agent.llama.model import LlamaModel

SCALE = 1.0
"""Of the adapter's own strength (alpha / rank), which llama.cpp applies by itself."""


def load_adapters(model: LlamaModel, paths: Mapping[str, str]) -> dict[str, object]:
    """The adapters' pointers by name. To be called before a context is made: its graphs are sized for them.

    The headers must have been read before. Raises ModelCannotBeLoaded with llama.cpp's reason, naming
    the adapter as `title` does.
    """
    return {name: _load(model, name, path) for name, path in paths.items()}


def title(name: str) -> str:
    """How sentences about an adapter name it."""
    return f"LoRA adapter {name!r}"


def _load(model: LlamaModel, name: str, path: str) -> object:
    with collected_errors() as errors:
        pointer = llama_cpp.llama_adapter_lora_init(model.pointer, path.encode("utf-8", errors="surrogateescape"))
    if not pointer:
        raise ModelCannotBeLoaded(f"{title(name)} ({path}): {reason(errors)}")
    if llama_cpp.llama_adapter_get_alora_n_invocation_tokens(pointer):
        sentence = f"{title(name)} ({path}): it works from an invocation on only, which is not supported"
        raise ModelCannotBeLoaded(sentence)
    return pointer
