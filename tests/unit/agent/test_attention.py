"""Plain attention on CPUs for narrow heads, as long as its scores stay small."""

import pytest

from agent.llama.attention import MOST_SCORE_BYTES, plain_attention_rows


@pytest.mark.parametrize(
    ("cells", "heads", "rows"),
    [
        (4096, 9, 512),
        (12_288, 9, 512),
        (32_768, 9, 128),
        (32_768, 32, 64),
        (32_768, 33, None),
        (262_144, 32, None),
    ],
)
def test_the_rows_follow_the_pool_until_flash_attention_is_better(cells: int, heads: int, rows: int | None) -> None:
    assert plain_attention_rows(64, 4 * cells * heads, "F16") == rows
    if rows:
        assert rows * 4 * cells * heads <= MOST_SCORE_BYTES


def test_a_quantised_v_cache_needs_flash_attention() -> None:
    assert plain_attention_rows(64, 4, "Q8_0") is None
    assert plain_attention_rows(64, 4, "BF16") == 512


def test_wide_heads_get_flash_attention() -> None:
    assert plain_attention_rows(128, 4, "F16") is None
