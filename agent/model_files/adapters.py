"""LoRA adapter files: the headers are read before llama.cpp sees them, and must be made for the model."""

import os
from collections.abc import Mapping

from agent.model_files.errors import ModelFileError, ModelFileMalformed
from agent.model_files.header import GgufHeader, read_header


def check_adapters(paths: Mapping[str, str], model: GgufHeader) -> None:
    """Raises a `ModelFileError`, whose sentence names the adapter, with the first that cannot be used."""
    for name, path in paths.items():
        try:
            if not os.path.isabs(path):
                raise ModelFileMalformed(path, "LocalToAgent needs an absolute path on the agent's host")
            _check(read_header(path), model)
        except ModelFileError as error:
            raise type(error)(path, f"LoRA adapter {name!r}: {error.sentence}") from error


def _check(adapter: GgufHeader, model: GgufHeader) -> None:
    kind = adapter.metadata.get("general.type")
    if kind != "adapter" or adapter.metadata.get("adapter.type") != "lora":
        raise ModelFileMalformed(adapter.path, "is a GGUF file, but no LoRA adapter")
    if adapter.split_count != 1:
        raise ModelFileMalformed(adapter.path, "is split into several files")
    if adapter.tensor_count == 0:
        raise ModelFileMalformed(adapter.path, "has no tensors")
    if adapter.architecture != model.architecture:
        made_for = (adapter.architecture or "")[:40]
        raise ModelFileMalformed(adapter.path, f"was made for {made_for!r}, and the model is {model.architecture!r}")
