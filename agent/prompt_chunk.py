"""How many prompt tokens one step may take: chosen once per model load, so that a step stays short.

A chunk is what others wait for and the unit of cancellation; 2,048 tokens take 5 to 8 s on two cores. So: the largest
power of two whose step is expected to stay within a quarter of a second, or within one second while nobody generates
who would notice. But 64 at least: from 64 rows on ggml's flash attention on CPUs works in tiles, and 64 rows take as
long as 32 do (SmolLM2, two cores: 100 tokens per second in chunks of 32, 200 in chunks of 64, 260 in chunks of 256).
"""

from collections.abc import Callable
from dataclasses import dataclass

from agent.core.backend import Backend, BatchPlan, DecodeOutcome, PlannedRun

LONGEST_STEP_SECONDS = 0.25
LONGEST_LONE_STEP_SECONDS = 1.0
SMALLEST_CHUNK_TOKENS = 64
LARGEST_CHUNK_TOKENS = 2048
PROBE_TOKENS = 64
PROBES = 3  # the best one counts: a busy machine only ever makes a probe slower


@dataclass(frozen=True, slots=True)
class PromptChunks:
    """Tokens per step, at most: `beside_answers` that are being generated, and `alone`."""

    beside_answers: int
    alone: int

    def __str__(self) -> str:
        return f"chunks of {self.beside_answers} tokens, of {self.alone} while nobody generates"


def choose_prompt_chunks(backend: Backend, clock: Callable[[], float]) -> PromptChunks:
    """At most what the batch holds. Leaves the backend's memory empty, as it has to be found."""
    limits = backend.limits
    probe_tokens = min(PROBE_TOKENS, limits.batch_tokens, limits.context_cells)
    begin = clock()
    seconds = _probe(backend, probe_tokens, clock)
    for _ in range(PROBES - 1):
        if clock() - begin > LONGEST_STEP_SECONDS:
            break  # so slow, or so disturbed, that it would not matter
        seconds = min(seconds, _probe(backend, probe_tokens, clock))
    return chunks_for(seconds / probe_tokens, limits.batch_tokens)


def chunks_for(seconds_per_token: float, batch_tokens: int) -> PromptChunks:
    """The largest powers of two of tokens that stay within the two times, within the bounds."""

    def largest(within_seconds: float) -> int:
        chunk = SMALLEST_CHUNK_TOKENS
        while 2 * chunk <= LARGEST_CHUNK_TOKENS and 2 * chunk * seconds_per_token <= within_seconds:
            chunk *= 2
        return min(chunk, batch_tokens)

    return PromptChunks(beside_answers=largest(LONGEST_STEP_SECONDS), alone=largest(LONGEST_LONE_STEP_SECONDS))


def _probe(backend: Backend, tokens: int, clock: Callable[[], float]) -> float:
    """Seconds of one decode; of no use when it fails, and then as long as can be."""
    begin = clock()
    run = PlannedRun(sequence_id=0, tokens=(0,) * tokens, first_position=0, wants_logits=True)
    outcome = backend.decode(BatchPlan((run,)))
    seconds = clock() - begin
    backend.remove_from(0, 0)
    return seconds if outcome is DecodeOutcome.DECODED else LONGEST_LONE_STEP_SECONDS
