"""On a tiny F32 model: however a request was batched, its logits are those of a run alone, within 1e-3.

Every run is fed the tokens of the cold run, so that one near-tie cannot hide or fake a difference. What rounding
does lies near 1e-5; each planted fault moves the logits by whole units.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import numpy as np
import numpy.typing as npt
import pytest

from agent.core import batch_plan, scheduler
from agent.core.backend import BatchPlan, DecodeOutcome, PlannedRun
from agent.core.commands import Submit
from agent.core.events import MemberEnded
from agent.core.prefix_cache import PrefixCache
from agent.core.prefix_tree import PrefixMatch
from agent.core.scheduler import Scheduler, SchedulerSettings
from agent.core.sequence import MemberSequence
from agent.llama.backend import LlamaBackend
from agent.llama.context import LlamaContext
from agent.llama.context_parameters import ContextParameters
from agent.llama.model import LlamaModel
from agent.llama.vocabulary import LlamaVocabulary, load_vocabulary
from shared.generation import FinishReason, SamplingParameters
from tests.support.tiny_model import EOS_TOKEN, tiny_model_path

TOLERANCE = 1e-3
CELLS = 256  # the smallest pool that llama.cpp makes
ANSWER_TOKENS = 12

pytestmark = pytest.mark.model

Row = npt.NDArray[np.float32]


@dataclass(slots=True)
class RecordingSampler:
    """Keeps each row of logits; draws the likeliest token, or the given ones in order."""

    given: Sequence[int] = ()
    rows: list[Row] = field(default_factory=list)

    def observe(self, tokens: Sequence[int]) -> None:
        pass

    def sample(self, logits: Row, answer_index: int) -> int | None:
        self.rows.append(logits.copy())
        if self.given:
            return self.given[answer_index]
        logits[EOS_TOKEN] = -np.inf  # so that every answer is as long as asked for
        return int(logits.argmax())


@dataclass(slots=True)
class ColdRun:
    """What a prompt gives in a context of its own."""

    prompt: list[int]
    answer: list[int]
    rows: list[Row]


class Laboratory:
    """The tiny model, contexts on it, and runs of requests in them."""

    def __init__(self, path: Path) -> None:
        self.model = LlamaModel.load(str(path))
        self._lease = load_vocabulary(str(path))
        self.vocabulary: LlamaVocabulary = self._lease.vocabulary
        self._samplers: Iterator[RecordingSampler] = iter(())

    def backend(self, *, cells: int = 1024, batch: int = 64, slots: int = 6) -> LlamaBackend:
        parameters = ContextParameters(
            slots=slots,
            context_size=cells,
            n_batch=batch,
            k_cache_dtype="F32",
            v_cache_dtype="F32",
        )
        return LlamaBackend(LlamaContext(self.model, parameters), lambda *_: next(self._samplers))

    def scheduler(self, backend: LlamaBackend, *, slots: int = 6, chunk: int = 32) -> Scheduler:
        return Scheduler(backend, self.vocabulary, SchedulerSettings(slots, chunk))

    def cold(self, prompt: list[int], answer_tokens: int = ANSWER_TOKENS) -> ColdRun:
        backend = self.backend()
        try:
            sampler = RecordingSampler()
            (answer,) = self.run(backend, self.scheduler(backend), [(prompt, answer_tokens)], [sampler])
            return ColdRun(prompt, answer, sampler.rows)
        finally:
            backend.close()

    def run(
        self,
        backend: LlamaBackend,
        scheduler: Scheduler,
        requests: list[tuple[list[int], int]],
        samplers: list[RecordingSampler],
    ) -> list[list[int]]:
        """Submit all at once and step until all have ended; the answers in the order of the requests."""
        self._samplers = iter(samplers)
        tokens: dict[object, list[int]] = {key: [] for key in range(len(requests))}
        for key, (prompt, answer_tokens) in enumerate(requests):
            scheduler.handle(Submit(key, tuple(prompt), answer_tokens, SamplingParameters(), 1, key))
        while (plan := scheduler.plan_next_batch()) is not None:
            scheduler.commit(plan, backend.decode(plan), backend.logits)
            scheduler.check_invariants()
            backend.clear_abort()
            for event in scheduler.take_events():
                if isinstance(event, MemberEnded):
                    assert event.finish_reason is FinishReason.LENGTH, event.failure
                else:
                    tokens[event.key] += getattr(event, "token_ids", ())
        return list(tokens.values())

    def difference(self, backend: LlamaBackend, scheduler: Scheduler, runs: list[ColdRun]) -> float:
        """Run them all together on the cold runs' tokens; the largest difference of any logit."""
        samplers = [RecordingSampler(run.answer) for run in runs]
        self.run(backend, scheduler, [(run.prompt, len(run.answer)) for run in runs], samplers)
        return max(
            float(np.abs(np.stack(sampler.rows) - np.stack(run.rows)).max())
            for sampler, run in zip(samplers, runs, strict=True)
        )

    def close(self) -> None:
        self.model.close()
        self._lease.release()


@pytest.fixture(scope="module")
def laboratory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laboratory]:
    laboratory = Laboratory(tiny_model_path(tmp_path_factory.mktemp("tiny")))
    yield laboratory
    laboratory.close()


@pytest.fixture(scope="module")
def runs(laboratory: Laboratory) -> list[ColdRun]:
    """Six prompts: three share 60 tokens, two share 17 with these, one is a stranger."""
    random = Random(3)
    words = lambda count: [random.randrange(3, 512) for _ in range(count)]  # noqa: E731
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
    """Every third decode is aborted before or after its first rows."""
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

    def match(self: PrefixCache, tokens: list[int]) -> PrefixMatch:
        found = real(self, tokens)
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

    monkeypatch.setattr(scheduler, "planned_run", swapped)


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


# The one number that admission and eviction use


@pytest.mark.parametrize("seed", range(6))
def test_a_plan_fits_exactly_when_the_cache_says_so(laboratory: Laboratory, seed: int) -> None:
    """Random members come, share, grow and go, until cells run out again and again."""
    random = Random(seed)
    slots = 6
    backend = laboratory.backend(cells=CELLS, batch=CELLS, slots=slots)
    cache = PrefixCache(backend, backend.limits, slots)
    tokens: dict[int, list[int]] = {}
    outcomes: list[DecodeOutcome] = []
    for _ in range(150):
        if len(tokens) < slots and random.random() < 0.5:
            wanted = [random.randrange(3, 6) for _ in range(random.randrange(1, 40))] + [7]
            match = cache.match(wanted)
            tokens[cache.attach(match)] = wanted[: match.tokens]
        elif tokens and random.random() < 0.4:
            member = random.choice(list(tokens))
            del tokens[member]
            (cache.park if random.random() < 0.7 else cache.release)(member)
        if tokens:
            outcomes.append(_grow_by_about_what_is_free(backend, cache, tokens, random))
        if random.random() < 0.3:
            cache.evict_oldest()
        cache.check_invariants()
    backend.close()
    assert outcomes.count(DecodeOutcome.NO_KV_SLOT) > 5
    assert outcomes.count(DecodeOutcome.DECODED) > 5


def _grow_by_about_what_is_free(
    backend: LlamaBackend, cache: PrefixCache, tokens: dict[int, list[int]], random: Random
) -> DecodeOutcome:
    """One decode of a random split of rows; its outcome must be the predicted one."""
    rows = random.choice([1, cache.free_cells // 3, cache.free_cells - 1, cache.free_cells, cache.free_cells + 1])
    rows = min(max(1, rows), CELLS)
    share, runs = -(-rows // len(tokens)), []
    for member, held in tokens.items():
        count = min(share, rows)
        if count:
            new = [random.randrange(3, 6) for _ in range(count)]
            runs.append(PlannedRun(member, new, len(held), True))
            rows -= count
    plan = BatchPlan(tuple(runs))
    fits = plan.tokens <= cache.free_cells
    outcome = backend.decode(plan)
    assert outcome is (DecodeOutcome.DECODED if fits else DecodeOutcome.NO_KV_SLOT)
    if fits:
        for run in runs:
            cache.extend(run.sequence_id, run.tokens)
            tokens[run.sequence_id] += run.tokens
    return outcome
