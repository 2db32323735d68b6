"""Decodes two tokens with a quantised model of one layer: what a broken AMX build does not survive.

`python -m agent.llama.amx_probe`, started by `extra_buffers`; 0 is the exit status when it works. The model is written
into memory; it is zeros all over, since only that they are multiplied matters.
"""

import os
import sys

import gguf
import llama_cpp
import numpy as np

_CHANNELS = 256  # all tensors are square but the vocabulary's; AMX takes multiples of 32 rows and 256 columns
_VOCABULARY = 64


def _write_model(path: str) -> None:
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(256)
    writer.add_embedding_length(_CHANNELS)
    writer.add_block_count(1)
    writer.add_feed_forward_length(_CHANNELS)
    writer.add_head_count(4)
    writer.add_head_count_kv(4)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(_CHANNELS // 4)
    writer.add_vocab_size(_VOCABULARY)
    writer.add_tokenizer_model("none")
    for name in ("token_embd", "output"):
        _add_quantised(writer, f"{name}.weight", _VOCABULARY)
    for name in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"):
        _add_quantised(writer, f"blk.0.{name}.weight", _CHANNELS)
    for name in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"):
        writer.add_tensor(f"{name}.weight", np.ones(_CHANNELS, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_quantised(writer: gguf.GGUFWriter, name: str, rows: int) -> None:
    block, block_bytes = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType.Q8_0]
    zeros = np.zeros((rows, _CHANNELS // block * block_bytes), dtype=np.uint8)
    writer.add_tensor(name, zeros, raw_dtype=gguf.GGMLQuantizationType.Q8_0)


def _decode_two_rows(path: str) -> bool:
    llama_cpp.llama_backend_init()
    model = llama_cpp.llama_model_load_from_file(path.encode(), llama_cpp.llama_model_default_params())
    parameters = llama_cpp.llama_context_default_params()
    parameters.n_ctx = parameters.n_batch = 256
    parameters.n_threads = parameters.n_threads_batch = 1
    context = llama_cpp.llama_init_from_model(model, parameters) if model else None
    if not context:
        return False
    tokens = (llama_cpp.llama_token * 2)(1, 2)
    return bool(llama_cpp.llama_decode(context, llama_cpp.llama_batch_get_one(tokens, 2)) == 0)


def main() -> int:
    """The exit status. A broken build does not come back from here."""
    path = f"/proc/self/fd/{os.memfd_create('amx-probe')}"
    _write_model(path)
    return 0 if _decode_two_rows(path) else 1


if __name__ == "__main__":
    sys.exit(main())
