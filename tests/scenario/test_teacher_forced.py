"""On the real model: however a request was batched, the likeliest token is that of a run alone, near-ties apart.

A prompt that is split elsewhere, or cells that are reused, move a quantised model's logits by 0.4 to 1.4, so exact
figures are for the F32 model (test_engine_exactness.py). Here all runs are fed the tokens of the cold run, and the
likeliest token must be the same wherever the two best logits lie further apart than that.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from agent.core.scheduler import Scheduler
from agent.llama.backend import LlamaBackend
from agent.llama.context import LlamaContext
from agent.llama.context_parameters import ContextParameters
from tests.support.tiny_engine import ColdRun, Laboratory, RecordingSampler
from tests.support.tiny_model import demo_model_path

CLEAR_GAP = 1.5
ANSWER_TOKENS = 22
SHARED = (
    "You are a careful assistant. The rivers of Europe are listed below, one a line, from the longest to the shortest."
)
PROMPTS = (
    f"{SHARED} Volga, Danube, Ural, Dnieper, Don,",
    f"{SHARED} Please translate them into French and",
    "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,",
    "def fibonacci(n):\n    if n < 2:\n        return n\n    return fibonacci(n - 1) +",
)
POOL_CELLS = 4096  # an eighth of it holds all answers: none is forgotten before it is asked for again
SMALL_POOL_CELLS = 256

pytestmark = pytest.mark.model


class DemoLaboratory(Laboratory):
    """The demo model with the parameters that the agent gives its context."""

    def backend(self, *, cells: int = POOL_CELLS, batch: int = 64, slots: int = 6) -> LlamaBackend:
        parameters = ContextParameters(slots=slots, context_size=cells, n_batch=batch, threads=1)
        return LlamaBackend(LlamaContext(self.model, parameters), lambda *_: next(self._samplers))


@pytest.fixture(scope="module")
def laboratory() -> Iterator[Laboratory]:
    laboratory = DemoLaboratory(demo_model_path())
    yield laboratory
    laboratory.close()


@pytest.fixture(scope="module")
def runs(laboratory: Laboratory) -> list[ColdRun]:
    tokenize = laboratory.vocabulary.tokenize
    prompts = [tokenize(prompt, add_special=False, parse_special=True) for prompt in PROMPTS]
    return [laboratory.cold(prompt, ANSWER_TOKENS) for prompt in prompts]


def check_likeliest_tokens(
    laboratory: Laboratory, backend: LlamaBackend, scheduler: Scheduler, runs: Sequence[ColdRun]
) -> None:
    """Run them all together on the cold runs' tokens and compare row by row."""
    samplers = [RecordingSampler(run.answer) for run in runs]
    laboratory.run(backend, scheduler, [(run.prompt, len(run.answer)) for run in runs], samplers)
    compared = 0
    for run, sampler in zip(runs, samplers, strict=True):
        alone, together = np.stack(run.rows), np.stack(sampler.rows)
        best = np.partition(alone, -2, axis=1)[:, -2:]
        is_clear = best[:, 1] - best[:, 0] > CLEAR_GAP
        assert (alone.argmax(axis=1)[is_clear] == together.argmax(axis=1)[is_clear]).all()
        compared += int(is_clear.sum())
    assert compared > len(runs) * ANSWER_TOKENS / 4, "hardly any row was clear enough to be compared"


def test_beside_others_and_warm_the_likeliest_tokens_are_those_of_a_run_alone(
    laboratory: Laboratory, runs: list[ColdRun]
) -> None:
    backend = laboratory.backend()
    scheduler = laboratory.scheduler(backend)
    check_likeliest_tokens(laboratory, backend, scheduler, runs)
    shared = scheduler.statistics().reused_prompt_tokens
    assert shared >= 20, "the common beginning was computed twice"
    check_likeliest_tokens(laboratory, backend, scheduler, runs)
    assert scheduler.statistics().reused_prompt_tokens - shared == sum(len(run.prompt) - 1 for run in runs)
    backend.close()


def test_set_aside_and_evaluated_again_they_are_the_same(laboratory: Laboratory, runs: list[ColdRun]) -> None:
    """Eight answers do not fit into the pool beside each other; each prompt comes twice and shares its cells."""
    backend = laboratory.backend(cells=SMALL_POOL_CELLS, slots=8)
    scheduler = laboratory.scheduler(backend, slots=8)
    check_likeliest_tokens(laboratory, backend, scheduler, [*runs, *runs])
    assert scheduler.statistics().set_aside_total > 0
    backend.close()


def test_a_cache_of_eight_bits_keeps_them(laboratory: Laboratory, runs: list[ColdRun]) -> None:
    """The default state's cache types."""
    parameters = ContextParameters(
        slots=6, context_size=1024, n_batch=64, k_cache_dtype="Q8_0", v_cache_dtype="Q8_0", threads=1
    )
    backend = LlamaBackend(LlamaContext(laboratory.model, parameters), lambda *_: next(laboratory._samplers))
    check_likeliest_tokens(laboratory, backend, laboratory.scheduler(backend), runs)
    backend.close()


def test_another_prompts_cells_would_be_seen(
    laboratory: Laboratory, runs: list[ColdRun], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tests above can fail."""
    real = LlamaBackend.copy_prefix

    def copy_prefix(self: LlamaBackend, source: int, target: int, tokens: int) -> None:
        others = [one for one in range(6) if one not in (source, target) and self.evaluated_tokens(one) >= tokens]
        real(self, others[0] if others else source, target, tokens)

    monkeypatch.setattr(LlamaBackend, "copy_prefix", copy_prefix)
    monkeypatch.setattr(Scheduler, "check_invariants", lambda self: None)
    backend = laboratory.backend()
    scheduler = laboratory.scheduler(backend)
    check_likeliest_tokens(laboratory, backend, scheduler, runs[2:])  # cold: nothing is shared yet
    with pytest.raises(AssertionError, match="all"):
        check_likeliest_tokens(laboratory, backend, scheduler, runs[2:])
    backend.close()
