"""What reading a header costs, whatever is in the file, and that noise raises nothing but a `ModelFileError`."""

import contextlib
import os
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.model_files import byte_window
from agent.model_files.byte_window import WINDOW_BYTES
from agent.model_files.errors import ModelFileError, ModelFileMalformed
from agent.model_files.header import read_header
from tests.support.gguf_bytes import GgufBytes
from tests.support.large_headers import HOSTILE

MAX_MEMORY_BYTES = 10_000_000
MOST_READS = 16  # of a file that one read can hold: each array begins anew
EXAMPLES = 2 * settings().max_examples


@dataclass
class Reads:
    """What was asked of the file."""

    calls: int = 0
    total_bytes: int = 0


@contextlib.contextmanager
def counted_reads() -> Iterator[Reads]:
    """Counts instead of seconds: they are the same on a busy machine. (Seconds: tests/integration.)"""
    counted, pread = Reads(), os.pread

    def count(descriptor: int, length_bytes: int, position: int) -> bytes:
        counted.calls += 1
        counted.total_bytes += length_bytes
        return pread(descriptor, length_bytes, position)

    with mock.patch.object(os, "pread", count):
        yield counted


def _attempt(path: Path) -> None:
    try:
        read_header(path)
    except ModelFileError:
        pass


@pytest.mark.parametrize("write", HOSTILE.values(), ids=HOSTILE.keys())
def test_the_worst_files_within_the_bounds_are_read_once_in_large_pieces(
    tmp_path: Path, write: Callable[[Path], None]
) -> None:
    path = tmp_path / "hostile.gguf"
    write(path)

    with counted_reads() as reads:
        _attempt(path)

    assert reads.total_bytes < MAX_MEMORY_BYTES
    assert reads.calls <= MAX_MEMORY_BYTES // WINDOW_BYTES


def test_what_is_read_of_a_file_has_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That of a real run takes a file of the whole budget; the rule is the same for a small one."""
    monkeypatch.setattr(byte_window, "READ_BUDGET_BYTES", 3 * WINDOW_BYTES)
    path = tmp_path / "hostile.gguf"
    HOSTILE["a million empty strings"](path)

    with counted_reads() as reads, pytest.raises(ModelFileMalformed, match="larger than that of any real model"):
        read_header(path)

    assert reads.total_bytes <= 3 * WINDOW_BYTES


VALID = GgufBytes().to_bytes()
MUTATION = st.tuples(
    st.integers(0, len(VALID) - 400),  # the header: the data behind it has no meaning here
    st.one_of(
        st.binary(min_size=1, max_size=8),
        st.sampled_from([0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**62, 2**63 - 1, 2**63, 2**64 - 1]).map(
            lambda number: struct.pack("<Q", number)
        ),
        st.sampled_from([0, 8, 9, 13, 2**32 - 1]).map(lambda number: struct.pack("<I", number)),
    ),
)


@given(mutations=st.lists(MUTATION, min_size=1, max_size=4), length=st.integers(0, len(VALID)), cut=st.booleans())
@settings(max_examples=EXAMPLES)
def test_mutations_of_a_valid_file_raise_nothing_else_and_cost_little(
    tmp_path_factory: pytest.TempPathFactory,
    mutations: list[tuple[int, bytes]],
    length: int,
    cut: bool,
) -> None:
    content = bytearray(VALID)
    for place, replacement in mutations:
        content[place : place + len(replacement)] = replacement
    path = tmp_path_factory.getbasetemp() / "mutated.gguf"
    path.write_bytes(content[:length] if cut else content)

    with counted_reads() as reads:
        try:
            header = read_header(path)
        except ModelFileError as error:
            assert str(path) in str(error)  # noqa: PT017 (any of the family will do)
        else:
            assert header.metadata_as_text()

    assert reads.total_bytes <= MOST_READS * len(VALID)


@given(content=st.binary(max_size=300))
@settings(max_examples=EXAMPLES)
def test_noise_behind_the_magic_raises_nothing_else(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "noise.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<I", 3) + content)
    _attempt(path)
