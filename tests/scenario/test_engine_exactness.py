"""On a tiny F32 model: however a request was batched, its logits are those of a run alone, within 1e-3.

Every run is fed the tokens of the cold run, so that one near-tie cannot hide or fake a difference. Rounding moves
the logits by 2e-5 here, each planted fault by whole units. Flash attention is off: its kernel for one row keeps
half-precision sums, which alone moves them by 5e-3.
"""

from collections.abc import Callable, Iterator
from random import Random

import pytest

from agent.core import batch_plan, step_filling
from agent.core.backend import BatchPlan, DecodeOutcome, PlannedRun, SavedCells
from agent.core.prefix_cache import PrefixCache
from agent.core.prefix_tree import PrefixMatch
from agent.core.scheduler import Scheduler
from agent.core.sequence import MemberSequence
from agent.llama.backend import LlamaBackend
from tests.support.tiny_engine import ColdRun, Laboratory, RecordingSampler
from tests.support.tiny_model import tiny_model_path

TOLERANCE = 1e-3
CELLS = 256  # the smallest pool that llama.cpp makes

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def laboratory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laboratory]:
    laboratory = Laboratory(tiny_model_path(tmp_path_factory.mktemp("tiny")))
    yield laboratory
    laboratory.close()


@pytest.fixture(scope="module")
def runs(laboratory: Laboratory) -> list[ColdRun]:
    """Six prompts: three share 60 tokens, two share 17 with these, one is a stranger."""
    random = Random(3)

    def words(count: int) -> list[int]:
        return [random.randrange(3, 512) for _ in range(count)]

    common = words(60)
    prompts = [common + words(9), common + words(1), common + words(40)]
    prompts += [common[:17] + words(33), common[:17] + words(5), words(25)]
    return [laboratory.cold(prompt) for prompt in prompts]


def test_batched_and_warm_runs_have_the_logits_of_a_cold_run_alone(laboratory: Laboratory, runs: list[ColdRun]) -> None:
    backend = laboratory.backend()
    scheduler = laboratory.scheduler(backend)
    assert laboratory.difference(backend, scheduler, runs) < TOLERANCE
    reused_cold = scheduler.statistics().reused_prompt_tokens
    assert reused_cold >= 2 * 60  # shared while they were being evaluated
    assert laboratory.difference(backend, scheduler, runs) < TOLERANCE
    reused_warm = scheduler.statistics().reused_prompt_tokens - reused_cold
    assert reused_warm == sum(len(run.prompt) - 1 for run in runs)
    backend.close()


def test_prefixes_that_were_in_host_memory_give_the_same(laboratory: Laboratory, runs: list[ColdRun]) -> None:
    """What one of them brings back, those that share it take from its cells."""
    backend = laboratory.backend()
    scheduler = laboratory.scheduler(backend, store_bytes=1 << 30)
    assert difference_after_leaving(laboratory, backend, scheduler, runs) < TOLERANCE
    statistics = scheduler.statistics()
    backend.close()
    assert statistics.store.restored_tokens > 128
    assert statistics.store.stored_tokens > 300


def difference_after_leaving(
    laboratory: Laboratory, backend: LlamaBackend, scheduler: Scheduler, runs: list[ColdRun]
) -> float:
    """Run them, have strangers drive them out of the cells, run them again: the largest difference of any logit."""
    differences = [laboratory.difference(backend, scheduler, runs)]
    requests = [([3 + (start + step) % 500 for step in range(150)], 2) for start in range(4)]
    laboratory.run(backend, scheduler, requests, [RecordingSampler() for _ in requests])
    assert scheduler.statistics().cached_tokens < 4 * 150
    return max(*differences, laboratory.difference(backend, scheduler, runs))


def test_a_batch_of_one_row_gives_the_same(laboratory: Laboratory, runs: list[ColdRun]) -> None:
    backend = laboratory.backend(batch=1)
    assert laboratory.difference(backend, laboratory.scheduler(backend, chunk=1), runs[3:]) < TOLERANCE
    backend.close()


def test_set_aside_and_evaluated_again_a_run_gives_the_same(laboratory: Laboratory) -> None:
    random = Random(5)
    runs = [laboratory.cold([random.randrange(3, 512) for _ in range(60)], 60) for _ in range(4)]
    backend = laboratory.backend(cells=CELLS)
    scheduler = laboratory.scheduler(backend)
    assert laboratory.difference(backend, scheduler, runs) < TOLERANCE
    assert scheduler.statistics().set_aside_total
    assert scheduler.statistics().evicted_tokens
    backend.close()


def test_after_aborts_a_run_gives_the_same(
    laboratory: Laboratory, runs: list[ColdRun], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every third decode is aborted."""
    outcomes: list[DecodeOutcome] = []
    real = LlamaBackend.decode

    def decode(self: LlamaBackend, plan: BatchPlan) -> DecodeOutcome:
        if len(outcomes) % 3 == 2:
            self.request_abort()
        outcomes.append(real(self, plan))
        return outcomes[-1]

    monkeypatch.setattr(LlamaBackend, "decode", decode)
    backend = laboratory.backend(batch=16)
    assert laboratory.difference(backend, laboratory.scheduler(backend, chunk=16), runs) < TOLERANCE
    assert outcomes.count(DecodeOutcome.ABORTED) > 5
    backend.close()


# The tests above can fail


def _one_token_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    real = PrefixCache.match

    def match(self: PrefixCache, tokens: list[int], most: int | None = None, adapter: str | None = None) -> PrefixMatch:
        found = real(self, tokens, most, adapter)
        return PrefixMatch(min(found.tokens + 1, len(tokens) - 1, found.run.stop), found.sequence_id, found.run)

    monkeypatch.setattr(PrefixCache, "match", match)


def _cells_of_another_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    real = LlamaBackend.copy_prefix

    def copy_prefix(self: LlamaBackend, source: int, target: int, tokens: int) -> None:
        others = [one for one in range(6) if one not in (source, target) and self.evaluated_tokens(one) >= tokens]
        real(self, others[0] if others else source, target, tokens)

    monkeypatch.setattr(LlamaBackend, "copy_prefix", copy_prefix)


def _positions_are_swapped(monkeypatch: pytest.MonkeyPatch) -> None:
    """The two first tokens of a chunk stand in each other's place."""

    def swapped(sequence: MemberSequence, rows: int) -> PlannedRun:
        run = batch_plan.planned_run(sequence, rows)
        if rows < 3:
            return run
        first, second, *rest = run.tokens
        return PlannedRun(run.sequence_id, (second, first, *rest), run.first_position, run.wants_logits)

    monkeypatch.setattr(step_filling, "planned_run", swapped)


@pytest.mark.parametrize("plant", [_one_token_too_many, _cells_of_another_prompt, _positions_are_swapped])
def test_a_planted_fault_moves_the_logits_far_beyond_the_tolerance(
    laboratory: Laboratory,
    runs: list[ColdRun],
    plant: Callable[[pytest.MonkeyPatch], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plant(monkeypatch)
    monkeypatch.setattr(Scheduler, "check_invariants", lambda self: None)
    backend = laboratory.backend()
    scheduler = laboratory.scheduler(backend)
    differences = [laboratory.difference(backend, scheduler, runs) for _ in range(2)]
    backend.close()
    assert max(differences) > 100 * TOLERANCE


def test_a_copy_of_another_prompt_moves_them_as_far(
    laboratory: Laboratory, runs: list[ColdRun], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = LlamaBackend.save_cells

    def save_cells(self: LlamaBackend, source: int, start: int, stop: int, through: int) -> SavedCells | None:
        others = [one for one in range(256) if one not in (source, through) and self.evaluated_tokens(one) >= stop]
        return real(self, others[-1] if others else source, start, stop, through)

    monkeypatch.setattr(LlamaBackend, "save_cells", save_cells)
    backend = laboratory.backend()
    scheduler = laboratory.scheduler(backend, store_bytes=1 << 30)
    difference = difference_after_leaving(laboratory, backend, scheduler, runs)
    backend.close()
    assert difference > 100 * TOLERANCE
