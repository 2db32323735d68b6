"""Tiny LoRA adapters for the tiny model: strong enough to change its answers."""

from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np

from tests.support.tiny_model import TinyModel

RANK = 4


@dataclass(frozen=True, slots=True)
class TinyAdapter:
    """What to write; the defaults are right for TinyModel()."""

    seed: int = 1
    architecture: str = "llama"
    kind: str = "lora"
    channels: int = TinyModel().channels
    tensor: str = "attn_v"


def write_tiny_adapter(path: Path, adapter: TinyAdapter | None = None) -> Path:
    """Low-rank changes of one matrix of each layer; alpha is the rank, so that they count as they are."""
    adapter = adapter or TinyAdapter()
    unfinished = path.with_suffix(".unfinished")
    writer = gguf.GGUFWriter(str(unfinished), adapter.architecture)
    writer.add_type("adapter")
    writer.add_string("adapter.type", adapter.kind)
    writer.add_float32("adapter.lora.alpha", float(RANK))
    random = np.random.default_rng(adapter.seed)
    scale = adapter.channels**-0.5
    for layer in range(TinyModel().layers):
        name = f"blk.{layer}.{adapter.tensor}.weight"
        for part, shape in (("a", (RANK, adapter.channels)), ("b", (adapter.channels, RANK))):
            writer.add_tensor(f"{name}.lora_{part}", (random.standard_normal(shape) * 2 * scale).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    unfinished.rename(path)
    return path
