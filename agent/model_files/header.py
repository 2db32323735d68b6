"""Reads the header of a GGUF file that nobody vouches for.

Under 0.2 s and 10 MB for any file, and never anything but a `ModelFileError`. llama.cpp reads the file
afterwards; what would abort its process (and ours with it) has to be refused here.
"""

import os
from dataclasses import dataclass

from agent.model_files.byte_window import ByteWindow
from agent.model_files.errors import ModelFileMalformed, ModelFileNotGguf, ModelFileTruncated
from agent.model_files.fatal_values import refuse_fatal_values
from agent.model_files.metadata import MAX_KEYS, Metadata, MetadataReader, Scalar
from agent.model_files.tensor_layout import MAX_TENSORS, check_tensors

MAGIC = b"GGUF"
SUPPORTED_VERSIONS = (2, 3)
DEFAULT_ALIGNMENT_BYTES = 32


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """What the header says. `metadata` holds scalars and strings; arrays are summed up: "[49152 strings]"."""

    path: str
    version: int
    architecture: str | None  # None only in a later part of a split model
    metadata: dict[str, Scalar]
    tensor_count: int
    chat_template: str | None
    context_length: int | None  # training context, in tokens
    vocabulary_size: int | None
    name: str | None
    file_type: int | None  # llama_ftype
    file_bytes: int
    split_index: int  # 0-based part number
    split_count: int  # 1: not split

    def metadata_as_text(self) -> dict[str, str]:
        """Sorted by key, each value as text: the shape of the management API's model metadata."""
        return {key: _as_text(self.metadata[key]) for key in sorted(self.metadata)}


def read_header(path: str | os.PathLike[str]) -> GgufHeader:
    """The header of the file. Raises a `ModelFileError` if it is absent, unreadable, foreign or broken."""
    name = os.fspath(path)
    with ByteWindow(name) as window:
        version, tensor_count, pair_count = _read_counts(name, window)
        metadata = MetadataReader(name, window).read(pair_count)
        refuse_fatal_values(name, metadata)
        check_tensors(name, window, tensor_count, _alignment(name, metadata))
        return _header(name, version, tensor_count, window.file_bytes, metadata)


def _read_counts(path: str, window: ByteWindow) -> tuple[int, int, int]:
    """Version, number of tensors, number of metadata pairs."""
    start = window.take(min(window.file_bytes, 8))
    if start[:4] != MAGIC:
        raise ModelFileNotGguf(path, "is empty" if not start else "is not a GGUF file")
    if len(start) < 8:
        raise ModelFileTruncated(path, "the file ends inside its first eight bytes")
    version = int.from_bytes(start[4:], "little")
    if version not in SUPPORTED_VERSIONS:
        if version & 0xFFFF == 0:
            raise ModelFileNotGguf(path, "is a GGUF file for machines of the other byte order")
        raise ModelFileNotGguf(path, f"is GGUF version {version}; versions 2 and 3 can be loaded")
    tensor_count = int.from_bytes(window.take(8), "little")
    pair_count = int.from_bytes(window.take(8), "little")
    if tensor_count > MAX_TENSORS:
        raise ModelFileMalformed(path, f"claims {tensor_count} tensors, more than any real model")
    if pair_count > MAX_KEYS:
        raise ModelFileMalformed(path, f"claims {pair_count} metadata keys, more than any real model")
    return version, tensor_count, pair_count


def _alignment(path: str, metadata: Metadata) -> int:
    alignment = metadata.values.get("general.alignment", DEFAULT_ALIGNMENT_BYTES)
    kind = metadata.types.get("general.alignment", "u32")
    if kind != "u32" or not isinstance(alignment, int) or alignment < 1 or alignment & (alignment - 1):
        raise ModelFileMalformed(path, "its data alignment is not a power of two")
    return alignment


def _header(path: str, version: int, tensor_count: int, file_bytes: int, metadata: Metadata) -> GgufHeader:
    split_count = metadata.whole_number("split.count") or 1
    split_index = metadata.whole_number("split.no") or 0
    architecture = metadata.text("general.architecture")
    if architecture is None and split_index == 0:
        raise ModelFileMalformed(path, "does not name its architecture")
    tokens = metadata.array_lengths.get("tokenizer.ggml.tokens")
    return GgufHeader(
        path=path,
        version=version,
        architecture=architecture,
        metadata=metadata.values,
        tensor_count=tensor_count,
        chat_template=metadata.text("tokenizer.chat_template"),
        context_length=metadata.whole_number(f"{architecture}.context_length"),
        vocabulary_size=tokens if tokens is not None else metadata.whole_number(f"{architecture}.vocab_size"),
        name=metadata.text("general.name"),
        file_type=metadata.whole_number("general.file_type"),
        file_bytes=file_bytes,
        split_index=split_index,
        split_count=split_count,
    )


def _as_text(value: Scalar) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
