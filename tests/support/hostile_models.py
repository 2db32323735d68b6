"""Model files that are wrong in a way that no reader of headers sees: made from the bytes of a good one."""

import random
import re
import struct
from collections.abc import Callable

from tests.support import gguf_bytes


def with_two_tokens_alike(content: bytes) -> bytes:
    """llama.cpp fails an assertion, which ends the process."""
    return _replaced(content, gguf_bytes.text("<0x41>"), gguf_bytes.text("<0x42>"))


def without_a_byte_token(content: bytes) -> bytes:
    """llama.cpp loads it, and throws through C at the first text that holds the byte."""
    return _replaced(content, gguf_bytes.text("<0xC3>"), gguf_bytes.text("<0xc3>"))


def with_a_short_byte_token(content: bytes) -> bytes:
    """A token of the kind "byte" whose text is too short to name one. The key that is longer keeps the alignment."""
    shortened = _replaced(content, gguf_bytes.text("<0x41>"), gguf_bytes.text("A!"))
    return _replaced(shortened, gguf_bytes.text("general.name"), gguf_bytes.text("general.name----"))


def with_transposed_tensor(content: bytes) -> bytes:
    """As many values as before, in a shape that the architecture does not have."""
    return _replaced(content, _record("blk.0.ffn_up.weight", 64, 128), _record("blk.0.ffn_up.weight", 128, 64))


def with_half_precision_norm(content: bytes) -> bytes:
    """A type that fits into the file and that the norm cannot be multiplied with."""
    head = gguf_bytes.text("blk.0.attn_norm.weight") + struct.pack("<IQ", 1, 64)
    return _replaced(content, head + struct.pack("<I", 0), head + struct.pack("<I", 24))


def without_a_tensor(content: bytes) -> bytes:
    """One has another name than the architecture asks for."""
    return _replaced(content, gguf_bytes.text("output_norm.weight"), gguf_bytes.text("output_form.weight"))


HOSTILE: dict[str, Callable[[bytes], bytes]] = {
    "two tokens alike": with_two_tokens_alike,
    "no token for a byte": without_a_byte_token,
    "a byte token too short": with_a_short_byte_token,
    "a transposed tensor": with_transposed_tensor,
    "a norm of bytes": with_half_precision_norm,
    "a tensor is missing": without_a_tensor,
}


def mutated(content: bytes, seed: int) -> bytes:
    """One or two small changes somewhere in front of the weights. The same seed gives the same file.

    Three in four hit a value or a tensor's record: elsewhere most are lengths, which the reader of headers refuses.
    """
    chance = random.Random(seed)
    fields = _fields(content)
    changed = bytearray(content)
    for _ in range(chance.randint(1, 2)):
        first, last = chance.choice(fields) if chance.random() < 0.75 else (_COUNTS_BYTES, fields[-1][1])
        place = chance.randrange(first, last)
        if chance.random() < 0.5:
            changed[place] ^= 1 << chance.randrange(8)
        else:
            number = chance.choice([0, 1, 3, 2**31 - 1, 2**31, 2**32 - 1])
            changed[place : place + 4] = struct.pack("<I", number)
    return bytes(changed)


_COUNTS_BYTES = 24  # magic, version, counts
_KEY = re.compile(rb"(llama|tokenizer\.ggml)\.[a-z_.]+")
_TENSOR = re.compile(rb"[a-z0-9_.]+\.weight")


def _fields(content: bytes) -> list[tuple[int, int]]:
    """Where numbers lie, as ranges of places: type and value of a key, dimensions and type of a tensor."""
    keys = [(found.end(), found.end() + 8) for found in _KEY.finditer(content)]
    tensors = [(found.end() + 4, found.end() + 24) for found in _TENSOR.finditer(content)]
    return sorted(keys) + sorted(tensors)


def _record(name: str, *dimensions: int) -> bytes:
    return gguf_bytes.text(name) + struct.pack(f"<I{len(dimensions)}Q", len(dimensions), *dimensions)


def _replaced(content: bytes, old: bytes, new: bytes) -> bytes:
    """Raises ValueError when the good file has changed so that `old` is not in it once."""
    if content.count(old) != 1:
        raise ValueError(f"{old!r} occurs {content.count(old)} times")
    return content.replace(old, new)
