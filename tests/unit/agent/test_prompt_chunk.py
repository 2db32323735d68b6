"""The chunk of a prompt is what a step can take in a quarter of a second (in one, while nobody generates)."""

import itertools

import pytest

from agent.core.backend import DecodeOutcome
from agent.prompt_chunk import PromptChunks, choose_prompt_chunks, chunks_for
from tests.support.scripted_backend import ScriptedFailure, scripted_backend


@pytest.mark.parametrize(
    ("seconds_per_token", "batch_tokens", "beside_answers", "alone"),
    [
        (0.01, 2048, 64, 64),
        (0.0039, 2048, 64, 256),
        (0.001, 2048, 128, 512),
        (0.0, 4096, 2048, 2048),
        (0.0, 512, 512, 512),
        (1.0, 1, 1, 1),
        (0.001, 100, 100, 100),
    ],
)
def test_the_chunks_follow_the_machine_within_the_batch(
    seconds_per_token: float, batch_tokens: int, beside_answers: int, alone: int
) -> None:
    assert chunks_for(seconds_per_token, batch_tokens) == PromptChunks(beside_answers, alone)


def test_the_best_probe_counts_and_the_memory_is_left_empty() -> None:
    backend = scripted_backend(cells=64, batch=64)
    readings = iter([0.0, 0.0, 0.08, 0.08, 0.08, 0.11, 0.11, 0.11, 0.17])  # probes of 80, 30 and 60 ms
    chunks = choose_prompt_chunks(backend, lambda: next(readings))
    assert chunks == PromptChunks(64, 64)
    assert backend.cells == []
    assert len(backend.plans) == 3


def test_a_slow_machine_is_probed_once() -> None:
    backend = scripted_backend(cells=64, batch=64)
    clock = itertools.count(0.0, 1.0)
    assert choose_prompt_chunks(backend, lambda: next(clock)) == PromptChunks(64, 64)
    assert len(backend.plans) == 1


def test_a_probe_that_fails_counts_as_slow() -> None:
    backend = scripted_backend(cells=64, batch=64)
    backend.failures.extend([ScriptedFailure(DecodeOutcome.ABORTED)] * 3)
    assert choose_prompt_chunks(backend, lambda: 0.0) == PromptChunks(64, 64)


def test_a_tiny_batch_is_not_exceeded() -> None:
    backend = scripted_backend(cells=64, batch=1)
    assert choose_prompt_chunks(backend, lambda: 0.0) == PromptChunks(1, 1)
