"""The number of a draw: uniform, and a function of seed and index that may never change."""

import pytest

from agent.sampling.uniform import uniform_draw


@pytest.mark.parametrize(
    ("seed", "answer_index", "expected"),
    [
        (0, 0, 0.7798320439431791),
        (1, 0, 0.5942111696890253),
        (0, 1, 0.9828212406031253),
        (2**64 - 1, 2**31, 0.41490562796945085),
    ],
)
def test_known_values(seed: int, answer_index: int, expected: float) -> None:
    """A stream that continues on an agent of another version goes on with the same draws."""
    assert uniform_draw(seed, answer_index) == expected


@pytest.mark.parametrize("seed", [-1, -(2**63), 0, 5, 2**63, 2**64 - 1, 2**64, 2**200])
def test_any_integer_is_a_seed_and_its_signed_and_unsigned_forms_are_one(seed: int) -> None:
    assert 0.0 <= uniform_draw(seed, 0) < 1.0
    assert uniform_draw(seed, 0) == uniform_draw(seed % 2**64, 0)


def test_seeds_that_differ_in_one_of_64_bits_draw_differently() -> None:
    """A generator of llama.cpp sees 32 bits only."""
    draws = {uniform_draw(1 << bit, 7) for bit in range(64)} | {uniform_draw(0, 7)}
    assert len(draws) == 65


def chi_square(draws: list[float], bins: int) -> float:
    counts = [0] * bins
    for draw in draws:
        counts[int(draw * bins)] += 1
    expected = len(draws) / bins
    return sum((count - expected) ** 2 / expected for count in counts)


@pytest.mark.parametrize(
    "draws",
    [
        pytest.param([uniform_draw(42, index) for index in range(8_000)], id="along one answer"),
        pytest.param([uniform_draw(seed, 0) for seed in range(8_000)], id="first tokens of neighbouring seeds"),
        pytest.param([uniform_draw(i, i) for i in range(8_000)], id="seed and index together"),
    ],
)
def test_draws_are_uniform_and_neighbours_independent(draws: list[float]) -> None:
    # Critical values at 1 in 10,000: 44.3 for 15 degrees of freedom, 346 for 255.
    assert chi_square(draws, 16) < 44.3
    pairs = [(int(a * 16) * 16 + b * 16) / 256 for a, b in zip(draws[::2], draws[1::2], strict=True)]
    assert chi_square(pairs, 256) < 346
