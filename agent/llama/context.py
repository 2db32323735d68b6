"""One llama_context: its cells and its compute buffers. Created from checked parameters, read back, freed once."""

import llama_cpp

from agent.llama.abort_flag import AbortFlag
from agent.llama.attention import with_fastest_attention
from agent.llama.context_parameters import ContextParameters
from agent.llama.errors import ContextCannotBeCreated
from agent.llama.library import collected_errors, reason
from agent.llama.memory_need import available_memory_bytes, refuse_too_large_cache
from agent.llama.model import LlamaModel


class LlamaContext:
    """Owned by one thread, save for `abort`. Close it before its model.

    `output_rows`: rows with logits that one decode may have. `cells`, `batch_tokens` and `sequence_ids` are read back:
    llama.cpp rounds the first up to a multiple of 256 and lowers the second to the context in silence, and a decode
    beyond it aborts the process.
    """

    def __init__(self, model: LlamaModel, parameters: ContextParameters) -> None:
        parameters.check()
        parameters = with_fastest_attention(model, parameters)
        self.cells_in_host_memory = not (model.uses_gpu and parameters.offload_cache)
        if self.cells_in_host_memory:
            refuse_too_large_cache(model, parameters, available_memory_bytes())
        self.abort = AbortFlag()
        requested = parameters.to_llama()
        requested.abort_callback = self.abort.callback
        requested.abort_callback_data = self.abort.data
        with collected_errors() as errors:
            pointer = llama_cpp.llama_init_from_model(model.pointer, requested)
        if not pointer:
            raise ContextCannotBeCreated(f"llama.cpp refused the context: {reason(errors)}")
        self._pointer: int | None = pointer
        self.model = model
        self.memory: int = llama_cpp.llama_get_memory(pointer)
        self.cells = int(llama_cpp.llama_n_ctx(pointer))
        self.batch_tokens = int(llama_cpp.llama_n_batch(pointer))
        self.sequence_ids = int(llama_cpp.llama_n_seq_max(pointer))
        self.output_rows = parameters.output_rows
        asked = parameters.context_size or model.training_context_tokens
        self.request_limit_tokens = min(asked, model.training_context_tokens, self.cells)

    @property
    def pointer(self) -> int:
        """The llama_context. Raises RuntimeError after `close`."""
        if self._pointer is None:
            raise RuntimeError("the context was closed")
        return self._pointer

    def close(self) -> None:
        """Free it. Idempotent. Must not run while another thread decodes: set `abort` and wait for it first."""
        pointer, self._pointer = self._pointer, None
        if pointer is not None:
            llama_cpp.llama_free(pointer)
