"""Guesses change nothing that a client gets to see, in scenarios at random that are long and busy."""

from dataclasses import replace

import pytest

from agent.core.events import EngineEvent, MemberEnded, PromptProgress
from tests.support import budgets
from tests.support.engine_driver import EngineDriver
from tests.support.oracle_drafts import use_oracle
from tests.support.random_scenarios import Scenario
from tests.support.small_pieces import use_small_pieces
from tests.unit.agent.test_scheduler_exactness import play


def test_guesses_change_no_event_whatever_happens_beside_them(monkeypatch: pytest.MonkeyPatch) -> None:
    use_small_pieces(monkeypatch)
    use_oracle(monkeypatch)
    drafted = accepted = 0
    for seed in range(budgets.current().hypothesis_examples):
        scenario = Scenario.of(seed)
        driver = scenario.driver(scenario.draft_tokens)
        play(scenario.actions, driver)
        statistics = driver.scheduler.statistics()
        drafted += statistics.drafted_tokens
        accepted += statistics.accepted_tokens
        if not scenario.is_quiet:
            continue
        without = scenario.driver(0)
        play(scenario.actions, without)
        for key in driver.submitted:
            assert told_of(key, driver) == told_of(key, without), (seed, key)
        other = without.scheduler.statistics()
        assert statistics.generated_tokens == other.generated_tokens
        assert statistics.forced_tokens == other.forced_tokens
    assert drafted > 100
    assert 0.2 * drafted < accepted < 0.9 * drafted


def told_of(key: object, driver: EngineDriver) -> list[EngineEvent]:
    """What a client gets to see; how much of a prompt came from memory depends on who else was there."""
    events = [event for event in driver.events if event.key == key and not isinstance(event, PromptProgress)]
    return [
        replace(event, usage=replace(event.usage, cached_prompt_tokens=0)) if isinstance(event, MemberEnded) else event
        for event in events
    ]
