"""Every choice its own seed, and the same ones again."""

from balancer.choice_seeds import choice_seed


def test_the_first_choice_has_the_requests_own_seed() -> None:
    assert choice_seed(7, 0) == 7


def test_the_others_differ_from_it_and_from_each_other() -> None:
    seeds = {choice_seed(seed, sample) for seed in (0, 1, 2**64 - 1) for sample in range(128)}
    assert len(seeds) == 3 * 128
    assert all(0 <= seed < 2**64 for seed in seeds)


def test_signed_and_unsigned_forms_are_one_seed() -> None:
    assert choice_seed(-1, 3) == choice_seed(2**64 - 1, 3)


def test_the_numbers_are_the_documented_ones() -> None:
    assert choice_seed(7, 1) == 14085856237827224396
