"""The one number that admission and eviction use: cells are free exactly when llama.cpp finds them."""

from collections.abc import Iterator
from random import Random

import pytest

from agent.core.backend import BatchPlan, DecodeOutcome, PlannedRun
from agent.core.prefix_cache import PrefixCache
from agent.llama.backend import LlamaBackend
from tests.support.tiny_engine import Laboratory
from tests.support.tiny_model import tiny_model_path

CELLS = 256  # the smallest pool that llama.cpp makes

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def laboratory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laboratory]:
    laboratory = Laboratory(tiny_model_path(tmp_path_factory.mktemp("tiny")))
    yield laboratory
    laboratory.close()


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
        count = min(share, rows, backend.limits.request_limit_tokens - len(held))
        if count > 0:
            new = [random.randrange(3, 6) for _ in range(count)]
            runs.append(PlannedRun(member, new, len(held), True))
            rows -= count
    if not runs:  # each is as long as a request may be
        return DecodeOutcome.DECODED
    plan = BatchPlan(tuple(runs))
    fits = plan.tokens <= cache.free_cells
    outcome = backend.decode(plan)
    assert outcome is (DecodeOutcome.DECODED if fits else DecodeOutcome.NO_KV_SLOT)
    if fits:
        for run in runs:
            cache.extend(run.sequence_id, run.tokens)
            tokens[run.sequence_id] += run.tokens
    return outcome
