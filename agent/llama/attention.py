"""Which form of attention a context gets, and how many rows it computes at a time.

On CPUs ggml's flash attention visits each cell of each row and head by itself: some 60 ns for one that the row sees,
5 ns for one that the mask hides. Plain attention is two matrix products, some 6 ns a cell whether hidden or not, and
its logits do not move with the way a prompt is split. So it is taken there, as long as what it needs stays small: a
score for each row, head and cell of the pool. On accelerators llama.cpp decides.
"""

import dataclasses

import llama_cpp

from agent.llama.context_parameters import MICRO_BATCH_TOKENS, UNQUANTISED, ContextParameters
from agent.llama.model import LlamaModel

MOST_SCORE_BYTES = 256 << 20
SMALLEST_MICRO_BATCH_TOKENS = 64
_SCORE_BYTES = 4


def with_fastest_attention(model: LlamaModel, parameters: ContextParameters) -> ContextParameters:
    """The parameters with what they leave open."""
    if model.uses_gpu or parameters.flash_attention is not None:
        return parameters
    cells = parameters.context_size or model.training_context_tokens
    scores_of_a_row = _SCORE_BYTES * int(llama_cpp.llama_model_n_head(model.pointer)) * cells
    rows = plain_attention_rows(scores_of_a_row, parameters.v_cache_dtype)
    if rows is None:
        return dataclasses.replace(parameters, flash_attention=True)
    return dataclasses.replace(parameters, flash_attention=False, micro_batch_tokens=rows)


def plain_attention_rows(scores_of_a_row_bytes: int, v_cache_dtype: str) -> int | None:
    """Rows at a time with plain attention, a power of two; None where flash attention is better or needed."""
    if v_cache_dtype not in UNQUANTISED:
        return None
    rows = MICRO_BATCH_TOKENS
    while rows * scores_of_a_row_bytes > MOST_SCORE_BYTES:
        rows //= 2
    return rows if rows >= SMALLEST_MICRO_BATCH_TOKENS else None
