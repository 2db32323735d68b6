"""What the worst headers cost in processor time and memory. The unit tests count reads; these watch the real thing."""

import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.model_files.errors import ModelFileError
from agent.model_files.header import read_header
from tests.support.large_headers import HOSTILE

MAX_SECONDS = 0.6
"""Of processor time, the best of three. What is promised is 0.2 s, and these take half of that; a machine whose cores
others share has slower seconds."""
MAX_MEMORY_BYTES = 10_000_000


@pytest.mark.parametrize("write", HOSTILE.values(), ids=HOSTILE.keys())
def test_the_worst_files_within_the_bounds_cost_little(tmp_path: Path, write: Callable[[Path], None]) -> None:
    path = tmp_path / "hostile.gguf"
    write(path)

    assert any(_seconds(path) < MAX_SECONDS for _ in range(3))
    assert _peak_bytes(path) < MAX_MEMORY_BYTES


def _seconds(path: Path) -> float:
    started = time.process_time()
    _attempt(path)
    return time.process_time() - started


def _peak_bytes(path: Path) -> int:
    tracemalloc.start()
    try:
        _attempt(path)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def _attempt(path: Path) -> None:
    try:
        read_header(path)
    except ModelFileError:
        pass
