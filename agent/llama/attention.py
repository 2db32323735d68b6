"""Which form of attention a context gets, and how many rows it computes at a time.

On CPUs ggml's flash attention takes some 60 ns for each cell that a row and head sees, however narrow the head, and up
to 5 ns for one that the mask hides. Plain attention is two matrix products: 6 ns a cell, hidden or not, for heads of 64
channels, and more for wider ones. With 8 sequences of 512 tokens in one pool, a step took 0.65 to 0.7 of the time of
one with flash attention for heads of 64 channels, 1.1 to 1.3 for 128, and 1.4 to 1.7 for 256.

So narrow heads get plain attention on CPUs, as long as what it needs stays small: a score for each row, head and cell
of the pool. Elsewhere llama.cpp decides.
"""

import dataclasses

import llama_cpp

from agent.llama.context_parameters import MICRO_BATCH_TOKENS, UNQUANTISED, ContextParameters
from agent.llama.model import LlamaModel

WIDEST_PLAIN_HEAD = 64
"""Channels; what lies between 64 and 128 was not measured."""
MOST_SCORE_BYTES = 256 << 20
SMALLEST_MICRO_BATCH_TOKENS = 64
_SCORE_BYTES = 4


def with_fastest_attention(model: LlamaModel, parameters: ContextParameters) -> ContextParameters:
    """The parameters with what they leave open."""
    heads = int(llama_cpp.llama_model_n_head(model.pointer))
    if model.uses_gpu or parameters.flash_attention is not None or heads == 0:
        return parameters
    head_width = model.number("attention.key_length") or int(llama_cpp.llama_model_n_embd(model.pointer)) // heads
    cells = parameters.context_size or model.training_context_tokens
    rows = plain_attention_rows(head_width, _SCORE_BYTES * heads * cells, parameters.v_cache_dtype)
    if rows is None:
        return parameters
    return dataclasses.replace(parameters, flash_attention=False, micro_batch_tokens=rows)


def plain_attention_rows(head_width: int, scores_of_a_row_bytes: int, v_cache_dtype: str) -> int | None:
    """Rows at a time with plain attention, a power of two; None where flash attention is better or needed."""
    if head_width > WIDEST_PLAIN_HEAD or v_cache_dtype not in UNQUANTISED:
        return None
    rows = MICRO_BATCH_TOKENS
    while rows * scores_of_a_row_bytes > MOST_SCORE_BYTES:
        rows //= 2
    return rows if rows >= SMALLEST_MICRO_BATCH_TOKENS else None
