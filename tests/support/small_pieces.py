"""The prefix store at the size of scripted prompts: pieces of six tokens, where three are worth bringing back."""

import pytest

from agent.core import prefix_moves, prefix_store


def use_small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the patch is undone."""
    monkeypatch.setattr(prefix_store, "PIECE_TOKENS", 6)
    monkeypatch.setattr(prefix_store, "LEAST_PIECE_TOKENS", 2)
    monkeypatch.setattr(prefix_moves, "REUSE_THAT_COUNTS_TOKENS", 3)
