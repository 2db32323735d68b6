"""Will the KV cache fit? llama.cpp asks for it and gets it: Linux promises memory that it does not have, and ends the
process when it is touched. So an estimate is compared with what is free before the context is created.
"""

import llama_cpp

from agent.llama.context_parameters import CACHE_BITS, ContextParameters
from agent.llama.errors import ContextCannotBeCreated
from agent.llama.model import LlamaModel

MOST_STORE_BYTES = 2 << 30
STORE_SHARE = 8
_CELL_PADDING = 256  # llama_context rounds n_ctx up to this


def refuse_too_large_cache(model: LlamaModel, parameters: ContextParameters, available_bytes: int | None) -> None:
    """Raises ContextCannotBeCreated when cache and output rows cannot fit into `available_bytes` (None: unknown)."""
    needed = cache_bytes(model, parameters) + parameters.output_rows * model.vocabulary_size * 4
    if available_bytes is not None and needed > available_bytes:
        raise ContextCannotBeCreated(
            f"a context of {parameters.context_size or model.training_context_tokens} tokens needs about "
            f"{needed >> 20} MiB for its cache, {available_bytes >> 20} MiB are free; lower context_size"
        )


def cache_bytes(model: LlamaModel, parameters: ContextParameters) -> int:
    """About what the cells need. Models with compressed or recurrent memory need less; 0 when it is not known."""
    if not model.can_cut_sequences:
        return 0
    heads = int(llama_cpp.llama_model_n_head(model.pointer))
    if heads == 0:
        return 0
    usual_width = int(llama_cpp.llama_model_n_embd(model.pointer)) // heads
    # Wider heads than the embedding's share are common (gemma-3-270m: 256 instead of 160).
    bits_of_head = CACHE_BITS[parameters.k_cache_dtype] * (model.number("attention.key_length") or usual_width)
    bits_of_head += CACHE_BITS[parameters.v_cache_dtype] * (model.number("attention.value_length") or usual_width)
    cells = parameters.context_size or model.training_context_tokens
    cells = -(-cells // _CELL_PADDING) * _CELL_PADDING
    return int(cells * model.layers * int(llama_cpp.llama_model_n_head_kv(model.pointer)) * bits_of_head / 8)


def prefix_store_limit(asked_bytes: int | None, available_bytes: int | None) -> int:
    """Most host memory for idle prefixes. Where nobody says, the smaller of 2 GiB and an eighth of what is free, so
    that the model of the next exchange finds the rest."""
    if asked_bytes is not None:
        return asked_bytes
    return min(MOST_STORE_BYTES, (available_bytes or 0) // STORE_SHARE)


def available_memory_bytes() -> int | None:
    """What the host can still give, the limit of its control group included; None where the system does not tell."""
    limits = [found for found in (_host_available_bytes(), _group_available_bytes()) if found is not None]
    return min(limits) if limits else None


def _host_available_bytes() -> int | None:
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return None


def _group_available_bytes() -> int | None:
    try:
        with open("/sys/fs/cgroup/memory.max", encoding="ascii") as file:
            limit = int(file.read())  # "max" where there is none
        with open("/sys/fs/cgroup/memory.current", encoding="ascii") as file:
            return max(0, limit - int(file.read()))
    except (OSError, ValueError):
        return None
