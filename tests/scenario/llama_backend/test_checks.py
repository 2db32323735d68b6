"""What is checked before llama.cpp is asked: it would end the process."""

import pytest

from agent.core.backend import DecodeOutcome, PlannedRun
from agent.llama.backend import LlamaBackend
from tests.support.tiny_backend import PROMPT, decode, logits_of, run


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
