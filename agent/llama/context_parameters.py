"""What to ask llama.cpp for when slots start: plain arguments, checked before they reach C."""

from dataclasses import dataclass

import llama_cpp

from agent.core.backend import HIGHEST_SEQUENCE_ID
from agent.core.batch_plan import MOST_LOGITS_ROWS
from agent.llama.errors import ContextCannotBeCreated

MAX_SLOTS = 255
SPARE_SEQUENCE_IDS = 4
"""Ids beyond the slots, for warm-up and for prefixes that are evaluated on nobody's behalf. Each costs
vocabulary x 4 bytes; parked copies need none (see HIGHEST_SEQUENCE_ID)."""
MICRO_BATCH_TOKENS = 512
MAX_TOKENS = 2**31 - 1

CACHE_TYPES: dict[str, int] = {
    "F32": llama_cpp.GGML_TYPE_F32,
    "F16": llama_cpp.GGML_TYPE_F16,
    "BF16": 30,  # GGML_TYPE_BF16; the binding does not name it
    "Q8_0": llama_cpp.GGML_TYPE_Q8_0,
    "Q4_0": llama_cpp.GGML_TYPE_Q4_0,
    "Q4_1": llama_cpp.GGML_TYPE_Q4_1,
    "IQ4_NL": llama_cpp.GGML_TYPE_IQ4_NL,
    "Q5_0": llama_cpp.GGML_TYPE_Q5_0,
    "Q5_1": llama_cpp.GGML_TYPE_Q5_1,
}
"""Names of the desired state's KV cache types."""
CACHE_BITS: dict[str, float] = {
    "F32": 32,
    "F16": 16,
    "BF16": 16,
    "Q8_0": 8.5,
    "Q4_0": 4.5,
    "Q4_1": 5,
    "IQ4_NL": 4.5,
    "Q5_0": 5.5,
    "Q5_1": 6,
}
UNQUANTISED = frozenset({"F32", "F16", "BF16"})


@dataclass(frozen=True, slots=True)
class ContextParameters:
    """context_size: cells of the pool in tokens, 0 for the training context. n_batch: most rows in one decode.

    flash_attention: None takes what is fastest (`attention`). On CPUs it computes runs of 64 rows and more in half
    precision, which moves logits with the way a prompt is split: tests that compare numbers switch it off.
    micro_batch_tokens: rows that are computed at a time.
    """

    slots: int
    context_size: int = 0
    n_batch: int = 2048
    k_cache_dtype: str = "F16"
    v_cache_dtype: str = "F16"
    threads: int = 1
    offload_cache: bool = True  # the cache goes where the layers are
    flash_attention: bool | None = None
    micro_batch_tokens: int = MICRO_BATCH_TOKENS

    @property
    def sequence_ids(self) -> int:
        """Ids that rows may use."""
        return min(self.slots + SPARE_SEQUENCE_IDS, HIGHEST_SEQUENCE_ID + 1)

    @property
    def output_rows(self) -> int:
        """Rows with logits that one decode may have: one for each id, or some of a prompt's log-probabilities."""
        return max(self.sequence_ids, min(MOST_LOGITS_ROWS, self.n_batch))

    def check(self) -> None:
        """Raises ContextCannotBeCreated for what llama.cpp would refuse or abort on."""
        if not 1 <= self.slots <= MAX_SLOTS:
            raise ContextCannotBeCreated(f"{self.slots} slots were asked for; 1 to {MAX_SLOTS} are possible")
        if not 0 <= self.context_size <= MAX_TOKENS:
            raise ContextCannotBeCreated(f"a context of {self.context_size} tokens is not possible")
        if not 1 <= self.n_batch <= MAX_TOKENS:
            raise ContextCannotBeCreated(f"a batch of {self.n_batch} tokens is not possible")
        if self.threads < 1:
            raise ContextCannotBeCreated(f"{self.threads} threads were asked for")
        for name in (self.k_cache_dtype, self.v_cache_dtype):
            if name not in CACHE_TYPES:
                raise ContextCannotBeCreated(f"{name!r} is not a KV cache type; {', '.join(CACHE_TYPES)} are")
        if self.flash_attention is False and self.v_cache_dtype not in UNQUANTISED:
            raise ContextCannotBeCreated(f"a {self.v_cache_dtype} V cache needs flash attention")

    def to_llama(self) -> llama_cpp.llama_context_params:
        """llama.cpp's structure, without the abort callback."""
        parameters = llama_cpp.llama_context_default_params()
        parameters.n_ctx = self.context_size
        parameters.n_batch = self.n_batch
        parameters.n_ubatch = min(self.micro_batch_tokens, self.n_batch)
        parameters.n_seq_max = self.sequence_ids
        # Its default is n_batch, and fewer outputs than sequence ids abort the process: n_batch may be 1.
        parameters.n_outputs_max = self.output_rows
        parameters.n_threads = self.threads
        parameters.n_threads_batch = self.threads
        parameters.kv_unified = True  # the pool is shared, and so are the cells of common prefixes
        parameters.swa_full = True  # else a sliding window forgets the prefix that another request would reuse
        parameters.offload_kqv = self.offload_cache
        parameters.type_k = CACHE_TYPES[self.k_cache_dtype]
        parameters.type_v = CACHE_TYPES[self.v_cache_dtype]
        parameters.flash_attn_type = self._flash_attention_type()
        parameters.no_perf = True
        return parameters

    def _flash_attention_type(self) -> int:
        if self.flash_attention is False:
            return int(llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED)
        if self.flash_attention or self.v_cache_dtype not in UNQUANTISED:
            return int(llama_cpp.LLAMA_FLASH_ATTN_TYPE_ENABLED)
        return int(llama_cpp.LLAMA_FLASH_ATTN_TYPE_AUTO)
