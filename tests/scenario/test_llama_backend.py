"""The backend over a real context: each outcome of a decode, what is checked before it, and sequence memory."""

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from agent.core.backend import Backend, BatchPlan, DecodeOutcome, PlannedRun
from agent.llama.backend import LlamaBackend
from agent.llama.context import LlamaContext
from agent.llama.context_parameters import ContextParameters
from agent.llama.errors import ContextCannotBeCreated
from agent.llama.model import LlamaModel
from agent.llama.threads import usable_cores
from shared.generation import SamplingParameters
from tests.support.tiny_model import TinyModel, demo_model_path, tiny_model_path

EXACT = 1e-3
EXACT_CONTEXT = {"k_cache_dtype": "F32", "v_cache_dtype": "F32", "flash_attention": False}
PROMPT = tuple(range(259, 359))

NewBackend = Callable[..., LlamaBackend]


def no_sampler(_parameters: SamplingParameters, _seed: int) -> Any:
    raise AssertionError("these tests do not sample")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlamaModel]:
    model = LlamaModel.load(str(tiny_model_path(tmp_path_factory.mktemp("models"))))
    yield model
    model.close()


@pytest.fixture
def new_backend(model: LlamaModel) -> Iterator[NewBackend]:
    """Makes backends on the tiny model and closes them."""
    made: list[LlamaBackend] = []

    def make(**changes: Any) -> LlamaBackend:
        parameters = ContextParameters(**{**EXACT_CONTEXT, "slots": 4, "context_size": 256, **changes})
        made.append(LlamaBackend(LlamaContext(model, parameters), no_sampler))
        return made[-1]

    yield make
    for backend in made:
        backend.close()


@pytest.fixture
def backend(new_backend: NewBackend) -> LlamaBackend:
    return new_backend()


def run(sequence_id: int, tokens: Sequence[int], first_position: int = 0, *, wants_logits: bool = True) -> PlannedRun:
    return PlannedRun(sequence_id, tuple(tokens), first_position, wants_logits)


def decode(backend: LlamaBackend, *runs: PlannedRun) -> DecodeOutcome:
    return backend.decode(BatchPlan(runs))


def logits_of(backend: LlamaBackend, sequence_id: int, tokens: Sequence[int], first_position: int = 0) -> Any:
    """Logits after `tokens`, evaluated in one decode; a copy."""
    assert decode(backend, run(sequence_id, tokens, first_position)) is DecodeOutcome.DECODED
    return backend.logits(0).copy()


def as_port(backend: LlamaBackend) -> Backend:
    """For the type checker: it is the port."""
    return backend


# Outcomes


def test_a_decode_gives_finite_logits_of_the_whole_vocabulary(backend: LlamaBackend) -> None:
    logits = logits_of(backend, 0, PROMPT)

    assert logits.shape == (512,)
    assert logits.dtype == np.float32
    assert np.isfinite(logits).all()
    assert backend.evaluated_tokens(0) == len(PROMPT)


def test_no_slot_leaves_every_position_and_shows_no_old_logits(backend: LlamaBackend) -> None:
    logits_of(backend, 0, PROMPT)
    logits_of(backend, 1, PROMPT)

    outcome = decode(backend, run(0, [300] * 30, 100), run(1, [300] * 30, 100))

    assert outcome is DecodeOutcome.NO_KV_SLOT
    assert [backend.evaluated_tokens(sequence_id) for sequence_id in (0, 1)] == [100, 100]
    with pytest.raises(ValueError, match="0 rows"):
        backend.logits(0)


def test_a_batch_that_fills_the_pool_to_the_last_cell_is_decoded(backend: LlamaBackend) -> None:
    logits_of(backend, 0, PROMPT)

    assert decode(backend, run(1, [300] * 156)) is DecodeOutcome.DECODED
    assert decode(backend, run(2, [300])) is DecodeOutcome.NO_KV_SLOT


def test_an_abort_stops_the_decode_and_the_next_one_after_clearing_is_exact(backend: LlamaBackend) -> None:
    expected = logits_of(backend, 3, PROMPT)
    before = logits_of(backend, 1, PROMPT[:50])
    backend.request_abort()

    outcome = decode(backend, run(0, PROMPT))

    assert outcome is DecodeOutcome.ABORTED
    assert backend.evaluated_tokens(0) == 0
    assert backend.evaluated_tokens(1) == 50
    with pytest.raises(ValueError):
        backend.logits(0)
    backend.remove_from(3, 0)
    backend.clear_abort()
    assert np.abs(logits_of(backend, 0, PROMPT) - expected).max() < EXACT
    backend.remove_from(1, 49)
    assert np.abs(logits_of(backend, 1, PROMPT[49:50], 49) - before).max() < EXACT


def test_an_abort_reaches_a_decode_from_another_thread(backend: LlamaBackend) -> None:
    aborter = threading.Thread(target=backend.request_abort)
    outcomes = []
    aborter.start()
    while DecodeOutcome.ABORTED not in outcomes:  # whenever the flag is seen, it stays set
        backend.remove_from(0, 0)
        outcomes.append(decode(backend, run(0, PROMPT)))
    aborter.join()

    assert set(outcomes[:-1]) <= {DecodeOutcome.DECODED}


# What is checked before llama.cpp is asked


@pytest.mark.parametrize(
    "runs",
    [
        (),
        (run(0, []),),
        (run(0, [-1]),),
        (run(0, [512]),),
        (run(0, [2**40]),),
        (run(-1, [300]),),
        (run(8, [300]),),  # 4 slots and 4 spare ids: 0 to 7
        (run(200, [300]),),
        (run(0, [300], 1),),
        (run(0, [300], -1),),
        (run(0, [300]), run(0, [300], 1)),
        (run(0, [300] * 257),),
        (run(0, [300] * 200), run(1, [300] * 57)),
    ],
    ids=[
        "no run",
        "an empty run",
        "a negative token",
        "a token beyond the vocabulary",
        "a token beyond 32 bits",
        "a negative sequence",
        "a sequence beyond n_seq_max",
        "a parked sequence",
        "a gap",
        "a negative position",
        "two runs of one sequence",
        "more than the batch",
        "more than the batch together",
    ],
)
def test_a_plan_that_would_harm_is_a_value_error_and_changes_nothing(
    backend: LlamaBackend, runs: tuple[PlannedRun, ...]
) -> None:
    with pytest.raises(ValueError):
        decode(backend, *runs)

    assert [backend.evaluated_tokens(sequence_id) for sequence_id in range(8)] == [0] * 8
    assert decode(backend, run(0, PROMPT)) is DecodeOutcome.DECODED


def test_a_run_that_overlaps_what_is_held_is_refused(backend: LlamaBackend) -> None:
    logits_of(backend, 0, PROMPT)

    with pytest.raises(ValueError, match="holds 100 tokens"):
        decode(backend, run(0, [300], 99))


@pytest.mark.parametrize("sequence_id", [-1, -2, 256, 300])
def test_sequence_ids_out_of_range_are_value_errors(backend: LlamaBackend, sequence_id: int) -> None:
    for misuse in (
        lambda: backend.remove_from(sequence_id, 0),
        lambda: backend.evaluated_tokens(sequence_id),
        lambda: backend.copy_prefix(sequence_id, 0, 1),
        lambda: backend.copy_prefix(0, sequence_id, 1),
    ):
        with pytest.raises(ValueError, match="sequence ids are 0 to 255"):
            misuse()


def test_other_impossible_arguments_are_value_errors(backend: LlamaBackend) -> None:
    for misuse in (
        lambda: backend.copy_prefix(0, 0, 1),
        lambda: backend.copy_prefix(0, 1, -1),
        lambda: backend.remove_from(0, -1),
        lambda: backend.logits(0),
        lambda: backend.logits(-1),
    ):
        with pytest.raises(ValueError):
            misuse()


# Numbers


def test_rows_come_in_the_order_of_the_runs_that_want_them(backend: LlamaBackend) -> None:
    alone = [logits_of(backend, 7, PROMPT[: 10 * n]) for n in (1, 2, 3) if backend.remove_from(7, 0)]
    backend.clear()

    outcome = decode(
        backend,
        run(2, PROMPT[:10]),
        run(0, PROMPT[:40], wants_logits=False),
        run(1, PROMPT[:20]),
        run(3, PROMPT[:30]),
    )

    assert outcome is DecodeOutcome.DECODED
    for row, expected in enumerate(alone):
        assert np.abs(backend.logits(row) - expected).max() < EXACT
    with pytest.raises(ValueError):
        backend.logits(3)


def test_logits_are_a_view_that_may_be_written_into(backend: LlamaBackend) -> None:
    logits_of(backend, 0, PROMPT)

    backend.logits(0)[7] = -np.inf

    assert backend.logits(0)[7] == -np.inf


def test_a_prompt_in_chunks_gives_the_logits_of_a_prompt_in_one(backend: LlamaBackend) -> None:
    whole = logits_of(backend, 0, PROMPT)
    for start in range(0, 100, 32):
        chunk = PROMPT[start : start + 32]
        assert decode(backend, run(1, chunk, start)) is DecodeOutcome.DECODED

    assert np.abs(backend.logits(0) - whole).max() < EXACT


def test_a_fault_by_one_token_moves_the_logits_far_beyond_rounding(backend: LlamaBackend) -> None:
    # Guards the tests above: the tiny model must be able to show a wrong cell or position.
    whole = logits_of(backend, 0, PROMPT)
    other = logits_of(backend, 1, (PROMPT[1], PROMPT[0], *PROMPT[2:]))

    assert np.abs(whole - other).max() > 100 * EXACT


# Sequence memory


def test_a_shared_prefix_gives_the_logits_of_a_cold_prompt_and_costs_no_cells(backend: LlamaBackend) -> None:
    cold = logits_of(backend, 0, PROMPT)
    for target in (1, 2, 3):
        backend.copy_prefix(0, target, 99)
        assert backend.evaluated_tokens(target) == 99
        assert np.abs(logits_of(backend, target, PROMPT[99:], 99) - cold).max() < EXACT

    # 100 cells and three of their own: 153 of 256 are free, which would be -144 had the prefix been copied.
    assert decode(backend, run(4, [300] * 153)) is DecodeOutcome.DECODED
    assert decode(backend, run(5, [300])) is DecodeOutcome.NO_KV_SLOT


def test_prefixes_can_be_parked_on_every_id_up_to_255_and_come_back(backend: LlamaBackend) -> None:
    # Undocumented: llama.cpp checks rows against n_seq_max (8 here), copies against its compiled-in 256.
    cold = logits_of(backend, 0, PROMPT)
    for parked in range(8, 256):
        backend.copy_prefix(0, parked, 100)
        assert backend.evaluated_tokens(parked) == 100
    backend.remove_from(0, 0)
    assert decode(backend, run(1, [300] * 200)) is DecodeOutcome.NO_KV_SLOT  # the parked cells are still taken

    for parked in (8, 131, 255):
        backend.copy_prefix(parked, 2, 99)
        assert np.abs(logits_of(backend, 2, PROMPT[99:], 99) - cold).max() < EXACT
        backend.remove_from(2, 0)
    for parked in range(8, 256):
        backend.remove_from(parked, 0)
    assert decode(backend, run(1, [300] * 200)) is DecodeOutcome.DECODED


def test_removing_a_tail_frees_its_cells_and_the_sequence_goes_on(backend: LlamaBackend) -> None:
    whole = logits_of(backend, 0, PROMPT)

    assert backend.remove_from(0, 40)

    assert backend.evaluated_tokens(0) == 40
    assert np.abs(logits_of(backend, 0, PROMPT[40:], 40) - whole).max() < EXACT


def test_clearing_forgets_everything(backend: LlamaBackend) -> None:
    logits_of(backend, 0, PROMPT)
    backend.copy_prefix(0, 200, 100)

    backend.clear()

    assert backend.evaluated_tokens(0) == backend.evaluated_tokens(200) == 0


# Awkward parameters


def test_a_context_of_64_with_a_batch_of_2048_obeys_what_is_read_back(new_backend: NewBackend) -> None:
    backend = new_backend(context_size=64, n_batch=2048)

    assert backend.limits.context_cells == 256
    assert backend.limits.batch_tokens == 64
    assert backend.limits.request_limit_tokens == 64
    assert decode(backend, run(0, PROMPT[:64])) is DecodeOutcome.DECODED
    with pytest.raises(ValueError, match="1 to 64"):
        decode(backend, run(1, PROMPT[:65]))


def test_a_batch_of_one_serves_eight_sequences(new_backend: NewBackend) -> None:
    # llama.cpp aborts at creation when its most outputs (n_batch by default) are fewer than its sequences.
    wide, narrow = new_backend(slots=8), new_backend(slots=8, n_batch=1)
    prompts = [PROMPT[start : start + 5] for start in range(8)]
    expected = [logits_of(wide, sequence_id, prompt) for sequence_id, prompt in enumerate(prompts)]

    narrow.warm_up()
    for position in range(5):
        for sequence_id, prompt in enumerate(prompts):
            found = logits_of(narrow, sequence_id, prompt[position : position + 1], position)
            if position == 4:
                assert np.abs(found - expected[sequence_id]).max() < EXACT


def test_255_slots_can_start_and_all_generate(new_backend: NewBackend) -> None:
    backend = new_backend(slots=255, context_size=512)

    assert decode(backend, *(run(sequence_id, [300]) for sequence_id in range(255))) is DecodeOutcome.DECODED
    assert np.abs(backend.logits(254) - backend.logits(0)).max() < EXACT


@pytest.mark.parametrize("dtype", ["F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "IQ4_NL", "Q5_0", "Q5_1"])
def test_every_cache_type_gives_logits_near_those_of_f32(new_backend: NewBackend, dtype: str) -> None:
    exact = logits_of(new_backend(), 0, PROMPT)

    found = logits_of(new_backend(k_cache_dtype=dtype, v_cache_dtype=dtype, flash_attention=None), 0, PROMPT)

    assert np.isfinite(found).all()
    assert np.corrcoef(found, exact)[0, 1] > 0.9


def test_the_training_context_is_taken_for_a_context_size_of_zero(new_backend: NewBackend) -> None:
    limits = new_backend(context_size=0).limits

    assert limits.context_cells == limits.request_limit_tokens == 1024


def test_a_context_beyond_the_training_context_is_a_larger_pool_for_the_same_requests(
    new_backend: NewBackend,
) -> None:
    limits = new_backend(context_size=4096).limits

    assert limits.context_cells == 4096
    assert limits.request_limit_tokens == 1024


@pytest.mark.parametrize(
    "changes",
    [
        {"slots": 0},
        {"slots": 256},
        {"context_size": -1},
        {"n_batch": 0},
        {"threads": 0},
        {"k_cache_dtype": "Q9"},
        {"context_size": 2**31 - 1},
        {"v_cache_dtype": "Q8_0"},  # without flash attention
    ],
    ids=lambda changes: " ".join(f"{key}={value}" for key, value in changes.items()),
)
def test_parameters_that_cannot_work_are_refused_with_a_sentence(
    new_backend: NewBackend, changes: dict[str, Any]
) -> None:
    with pytest.raises(ContextCannotBeCreated, match=r"\w+ \w+ \w+"):
        new_backend(**changes)


def test_a_cache_type_that_does_not_divide_the_heads_is_refused_with_llama_cpps_reason(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    narrow_heads = tiny_model_path(tmp_path_factory.mktemp("models"), TinyModel(heads=4))
    model = LlamaModel.load(str(narrow_heads))
    try:
        with pytest.raises(ContextCannotBeCreated, match="does not divide"):
            LlamaContext(model, ContextParameters(slots=1, k_cache_dtype="Q8_0", v_cache_dtype="Q8_0"))
    finally:
        model.close()


# Ends


def test_warming_up_leaves_nothing_behind(backend: LlamaBackend) -> None:
    backend.warm_up()

    assert [backend.evaluated_tokens(sequence_id) for sequence_id in range(8)] == [0] * 8
    with pytest.raises(ValueError):
        backend.logits(0)


def test_a_warm_up_that_fails_is_logged_and_harms_nothing(
    backend: LlamaBackend, caplog: pytest.LogCaptureFixture
) -> None:
    backend.request_abort()
    backend.warm_up()
    backend.clear_abort()

    assert "warm-up decode ended as aborted" in caplog.text
    assert decode(backend, run(0, PROMPT)) is DecodeOutcome.DECODED


def test_closing_twice_is_fine_and_use_afterwards_is_an_error_of_ours(backend: LlamaBackend) -> None:
    backend.close()
    backend.close()

    for use in (
        lambda: decode(backend, run(0, PROMPT)),
        lambda: backend.evaluated_tokens(0),
        lambda: backend.remove_from(0, 0),
        lambda: backend.copy_prefix(0, 1, 1),
        backend.clear,
        backend.warm_up,
    ):
        with pytest.raises(RuntimeError, match="closed"):
            use()
    backend.request_abort()  # from another thread this may come late


def test_at_least_one_core_is_usable() -> None:
    assert usable_cores() >= 1


@pytest.mark.model
def test_the_demo_model_continues_a_sentence_with_the_default_cache_type() -> None:
    model = LlamaModel.load(str(demo_model_path()))
    parameters = ContextParameters(
        slots=2, context_size=512, k_cache_dtype="Q8_0", v_cache_dtype="Q8_0", threads=usable_cores()
    )
    backend = LlamaBackend(LlamaContext(model, parameters), no_sampler)
    try:
        logits = logits_of(backend, 0, [504, 3575, 282, 4649, 314])  # "The capital of France is"
        assert np.isfinite(logits).all()
    finally:
        backend.close()
        model.close()
