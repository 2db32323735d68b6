"""Headers that cost as much as the bounds of the reader allow, and one that lies scattered over a terabyte."""

import struct
from collections.abc import Callable
from pathlib import Path

from agent.model_files.metadata import MAX_ARRAY_STRINGS
from agent.model_files.tensor_layout import MAX_TENSORS
from tests.support import gguf_bytes as build
from tests.support.gguf_bytes import PAIRS, GgufBytes


def million_empty_strings(path: Path) -> None:
    strings = build.array_pair("a", build.STRING, MAX_ARRAY_STRINGS - 3, bytes(8 * MAX_ARRAY_STRINGS))
    path.write_bytes(GgufBytes(pairs=(*PAIRS, strings)).to_bytes())


def as_many_tensors_as_possible(path: Path) -> None:
    tensors = [build.tensor(f"tensor {index:050}", (32,)) for index in range(MAX_TENSORS)]
    path.write_bytes(GgufBytes(tensors=tensors).to_bytes())


def four_thousand_long_keys(path: Path) -> None:
    keys = (build.u32_pair(f"{index:0500}", 1) for index in range(4000))
    path.write_bytes(GgufBytes(pairs=(*PAIRS, *keys)).to_bytes())


def scattered_over_a_terabyte(path: Path) -> None:
    """A sparse file: each string is a gigabyte of zeros, and so is every length after the first."""
    with path.open("wb") as file:
        file.write(GgufBytes(pairs=(*PAIRS, build.array_pair("a", build.STRING, 900_000, b""))).to_bytes())
        for number in range(1, 1000):
            file.seek(number << 30)
            file.write(struct.pack("<Q", (1 << 30) - 8))
        file.truncate(1 << 40)  # OSError: the temporary directory cannot hold a sparse file


HOSTILE: dict[str, Callable[[Path], None]] = {
    "a million empty strings": million_empty_strings,
    "thirty thousand tensors": as_many_tensors_as_possible,
    "four thousand long keys": four_thousand_long_keys,
    "strings over a terabyte": scattered_over_a_terabyte,
}
