"""Prompts of token ids: one or a batch; what looks like one and is not."""

import struct
from typing import Any

import pytest

from balancer.completions_prompts import TokenPrompt, pack, unpack
from tests.support.completion_bodies import body, completion, sentence


@pytest.mark.parametrize(
    ("prompt", "found"),
    [
        ([5], [[5]]),
        ([0], [[0]]),
        ([0, 0], [[0, 0]]),
        ([[1, 2]], [[1, 2]]),
        ([[1], [2, 3]], [[1], [2, 3]]),
        ([2**31 - 1], [[2**31 - 1]]),
    ],
)
def test_one_prompt_or_a_batch(prompt: Any, found: list[list[int]]) -> None:
    assert [unpack(one.packed) for one in body(prompt=prompt).prompt if isinstance(one, TokenPrompt)] == found


def test_ids_are_packed_as_the_wire_says() -> None:
    assert pack([1, 262_143]) == struct.pack("<2i", 1, 262_143)


@pytest.mark.parametrize(
    ("prompt", "words"),
    [
        ([[]], "entry 0 must not be empty"),
        ([[1], []], "entry 1 must not be empty"),
        ([True], "must hold token ids only: the one at index 0 is no integer"),
        ([1, 2.0], "must hold token ids only: the one at index 1 is no integer"),
        ([1, "2"], "must hold token ids only: the one at index 1 is no integer"),
        ([1, None], "must hold token ids only: the one at index 1 is no integer"),
        ([1, [2]], "must hold token ids only: the one at index 1 is no integer"),
        ([[1], 2], "must not mix lists and token ids; entry 1 is no list"),
        ([[1], [-2]], "entry 1 must hold token ids only: the one at index 0 is negative or over 2147483647"),
        ([2**31], "must hold token ids only: the one at index 0 is negative or over 2147483647"),
        ([[[1]]], "entry 0 must hold token ids only: the one at index 0 is no integer"),
        (["a", 1], "must not mix texts and token ids"),
        (5, "must be a non-empty list of token ids, or a non-empty list of such lists"),
        ({}, "must be a non-empty list of token ids, or a non-empty list of such lists"),
    ],
)
def test_what_is_no_prompt_is_refused(prompt: Any, words: str) -> None:
    assert sentence(prompt=prompt) == (f"prompt: {words}", "prompt")


def test_choices_go_prompt_by_prompt_and_each_prompt_has_the_same_seeds() -> None:
    request = completion(prompt=[[1], [2]], n=2, seed=9).request
    assert [one.index for one in request.members] == [0, 1, 2, 3]
    assert [request.prompt_of(one)[1] for one in request.members] == [pack([1]), pack([1]), pack([2]), pack([2])]
    seeds = [one.seed for one in request.members]
    assert seeds[:2] == seeds[2:]
    assert seeds[0] == 9
    assert seeds[1] != 9


@pytest.mark.parametrize(("seed", "word"), [(-1, 2**64 - 1), (2**64 - 1, 2**64 - 1), (0, 0), (None, 77)])
def test_any_seed_of_64_bits_will_do(seed: int | None, word: int) -> None:
    assert completion(seed=seed).request.members[0].seed == word


def test_texts_where_the_operator_lets_them_in() -> None:
    request = completion(prompt=["a", "b"]).request
    assert [request.prompt_of(one) for one in request.members] == [("a", None), ("b", None)]
