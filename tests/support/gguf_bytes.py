"""Builds GGUF files byte by byte, broken ones included: what `gguf` itself would refuse to write."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

U8, U32, F32, BOOL, STRING, ARRAY, U64 = 0, 4, 6, 7, 8, 9, 10


def text(value: str | bytes) -> bytes:
    """A length-prefixed string."""
    data = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(data)) + data


def string_pair(key: str, value: str | bytes) -> bytes:
    """A metadata pair that holds a string."""
    return text(key) + struct.pack("<I", STRING) + text(value)


def u32_pair(key: str, value: int) -> bytes:
    """A metadata pair that holds an unsigned 32-bit number."""
    return text(key) + struct.pack("<II", U32, value)


def array_pair(key: str, kind: int, count: int, items: bytes) -> bytes:
    """A metadata pair that holds an array; `count` need not be true."""
    return text(key) + struct.pack("<IIQ", ARRAY, kind, count) + items


def strings_pair(key: str, values: Sequence[str]) -> bytes:
    """A metadata pair that holds an array of strings."""
    return array_pair(key, STRING, len(values), b"".join(text(value) for value in values))


def tensor(name: str, dimensions: Sequence[int], kind: int = 0, offset: int = 0) -> bytes:
    """A tensor record."""
    head = text(name) + struct.pack("<I", len(dimensions))
    return head + struct.pack(f"<{len(dimensions)}Q", *dimensions) + struct.pack("<IQ", kind, offset)


PAIRS = (
    string_pair("general.architecture", "llama"),
    string_pair("general.name", "a name"),
    u32_pair("general.file_type", 0),
    u32_pair("llama.context_length", 1024),
    u32_pair("llama.block_count", 2),
    strings_pair("tokenizer.ggml.tokens", ["<unk>", "a", "b"]),
    array_pair("tokenizer.ggml.scores", F32, 3, struct.pack("<3f", 0.0, -1.0, -2.0)),
    string_pair("tokenizer.chat_template", "{{ messages }}"),
)
TENSORS = (tensor("a.weight", (32, 2)), tensor("b.weight", (32,), offset=256))


@dataclass(frozen=True)
class GgufBytes:
    """A small valid file; each test breaks one thing of it."""

    pairs: Sequence[bytes] = PAIRS
    tensors: Sequence[bytes] = TENSORS
    data: bytes = field(default=bytes(256 + 128))
    magic: bytes = b"GGUF"
    version: int = 3
    tensor_count: int | None = None
    pair_count: int | None = None

    def to_bytes(self) -> bytes:
        """The file."""
        tensor_count = len(self.tensors) if self.tensor_count is None else self.tensor_count
        pair_count = len(self.pairs) if self.pair_count is None else self.pair_count
        head = self.magic + struct.pack("<IQQ", self.version, tensor_count, pair_count)
        head += b"".join(self.pairs) + b"".join(self.tensors)
        return head + bytes(-len(head) % 32) + self.data
