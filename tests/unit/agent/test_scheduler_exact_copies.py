"""Prefixes that go to host memory and come back: exact, counted, and the tests that say so can fail."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from agent.core import scheduler
from agent.core.backend import SavedCells
from agent.core.prefix_store import PrefixStore, StoredPrefix
from tests.support.engine_driver import EngineDriver
from tests.support.scripted_backend import ScriptedBackend, prompt_with_answer, scripted_backend
from tests.support.small_pieces import use_small_pieces


def _a_copy_comes_back_at_the_place_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """A piece brings what another prompt had at its positions."""
    real = ScriptedBackend.save_cells
    kept: dict[tuple[int, int], SavedCells | None] = {}

    def save_cells(self: ScriptedBackend, source: int, start: int, stop: int, through: int) -> SavedCells | None:
        saved = real(self, source, start, stop, through)
        return kept.setdefault((start, stop), saved)

    monkeypatch.setattr(ScriptedBackend, "save_cells", save_cells)


def _a_copy_is_believed_to_reach_one_token_further(monkeypatch: pytest.MonkeyPatch) -> None:
    real = PrefixStore.find

    def find(self: PrefixStore, tokens: list[int], most: int, adapter: str | None = None) -> StoredPrefix:
        found = real(self, tokens, most, adapter)
        end = found.pieces[-1].stop if found.pieces else 0
        return StoredPrefix(min(found.tokens + 1, most, end), found.pieces)

    monkeypatch.setattr(PrefixStore, "find", find)


def _a_copy_knows_no_adapter(monkeypatch: pytest.MonkeyPatch) -> None:
    real = PrefixStore._root
    monkeypatch.setattr(PrefixStore, "_root", lambda self, adapter: real(self, None))


def _half_a_copy_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """The memory says that it took all of it."""
    real = ScriptedBackend.restore_cells

    def restore_cells(self: ScriptedBackend, saved: SavedCells, target: int, stop: int, through: int) -> bool:
        return real(self, replace(saved, content=saved.content[: len(saved.content) // 2]), target, stop, through)

    monkeypatch.setattr(ScriptedBackend, "restore_cells", restore_cells)


def come_and_go() -> EngineDriver:
    """With each adapter and without: a prompt, after its cells were left to others, and one that parts from it."""
    driver = EngineDriver(scripted_backend(cells=70, batch=16, ids=4), slots=3, chunk=8, store_bytes=10**6)
    prompt = prompt_with_answer(30, 5)
    for number, adapter in enumerate(["a", None, "b", "a", None, "b"]):
        driver.submit(number, prompt if number < 3 else [*prompt[:21], 5, 6], 5, adapter=adapter)
        driver.run()
        driver.submit(number + 100, prompt_with_answer(18, 4, salt=3), 4)
        driver.run()
    for key in driver.submitted:
        driver.assert_exact(key)
    return driver


def test_prefixes_that_come_and_go_are_exact_and_counted_in_usage(monkeypatch: pytest.MonkeyPatch) -> None:
    use_small_pieces(monkeypatch)
    driver = come_and_go()
    assert [driver.end(key).usage.cached_prompt_tokens for key in range(6)] == [0, 0, 0, 21, 21, 21]
    assert driver.scheduler.statistics().store.restored_tokens == 3 * 21 + 5 * 17


@pytest.mark.parametrize(
    "plant",
    [
        _a_copy_comes_back_at_the_place_of_another,
        _a_copy_is_believed_to_reach_one_token_further,
        _a_copy_knows_no_adapter,
        _half_a_copy_comes_back,
    ],
)
def test_a_planted_fault_in_copies_is_noticed(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    use_small_pieces(monkeypatch)
    plant(monkeypatch)
    monkeypatch.setattr(EngineDriver, "check_invariants", lambda self: None)
    monkeypatch.setattr(scheduler.Scheduler, "check_invariants", lambda self: None)
    with pytest.raises((AssertionError, ValueError, RuntimeError)):
        come_and_go()
