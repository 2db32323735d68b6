"""How much host memory idle prefixes may take."""

import pytest

from agent.llama.memory_need import prefix_store_limit


@pytest.mark.parametrize(
    ("asked", "available", "limit"),
    [
        (0, 1 << 40, 0),
        (5, None, 5),
        (None, None, 0),
        (None, 8 << 30, 1 << 30),
        (None, 1 << 40, 2 << 30),
    ],
)
def test_what_was_asked_for_else_an_eighth_of_what_is_free(
    asked: int | None, available: int | None, limit: int
) -> None:
    assert prefix_store_limit(asked, available) == limit
