"""Words for tests of the backend on the tiny model: runs, decodes and their logits."""

from collections.abc import Callable, Sequence
from typing import Any

from agent.core.backend import Backend, BatchPlan, DecodeOutcome, PlannedRun
from agent.llama.backend import LlamaBackend
from shared.generation import SamplingParameters

EXACT = 1e-3
EXACT_CONTEXT = {"k_cache_dtype": "F32", "v_cache_dtype": "F32", "flash_attention": False}
PROMPT = tuple(range(259, 359))
NewBackend = Callable[..., LlamaBackend]


def no_sampler(_parameters: SamplingParameters, _seed: int) -> Any:
    raise AssertionError("these tests do not sample")


def run(sequence_id: int, tokens: Sequence[int], first_position: int = 0, *, wants_logits: bool = True) -> PlannedRun:
    """Tokens of one sequence, as a plan holds them."""
    return PlannedRun(sequence_id, tuple(tokens), first_position, wants_logits)


def decode(backend: LlamaBackend, *runs: PlannedRun) -> DecodeOutcome:
    """One decode of these runs."""
    return backend.decode(BatchPlan(runs))


def logits_of(backend: LlamaBackend, sequence_id: int, tokens: Sequence[int], first_position: int = 0) -> Any:
    """Logits after `tokens`, evaluated in one decode; a copy."""
    assert decode(backend, run(sequence_id, tokens, first_position)) is DecodeOutcome.DECODED
    return backend.logits(0).copy()


def as_port(backend: LlamaBackend) -> Backend:
    """For the type checker: it is the port."""
    return backend
