"""A mask is made where it makes a difference, and left out where it would not."""

from agent.core.stop_rules import StopRules
from tests.support.engine_driver import EngineDriver, RulesOfRequest
from tests.support.scripted_backend import (
    END_TOKEN,
    VOCABULARY_SIZE,
    GreedySampler,
    ScriptedRow,
    scripted_backend,
)
from tests.support.scripted_constraint import ConstraintScript, ScriptedMatcher


class SureSampler(GreedySampler):
    """Says beforehand what it takes, whether or not that is allowed."""

    def __init__(self, says: int | None) -> None:
        super().__init__()
        self.says = says

    def sure_token(self, logits: ScriptedRow) -> int | None:
        assert logits.allowed is None
        return self.says

    def sample(self, logits: ScriptedRow, answer_index: int) -> int | None:
        return self.says if logits.allowed is None else super().sample(logits, answer_index)


def calls_with(says: int | None, stops: StopRules | None = None) -> list[str]:
    driver = EngineDriver(scripted_backend(400, 32, 3), 3, 8)
    driver.backend.new_sampler_for = lambda *_: SureSampler(says)
    script = ConstraintScript(salt=1, length=1, forced_share=0)
    driver.submit("a", [5, 6, 7, 8], script=script, rules=RulesOfRequest(stops=stops))
    driver.run()
    assert driver.answer("a")[0] in script.allowed(())
    matcher = driver.submitted["a"].constraint
    assert isinstance(matcher, ScriptedMatcher)
    return matcher.calls[1:]


def test_no_mask_is_made_where_the_token_that_is_chosen_anyway_is_allowed() -> None:
    allowed = ConstraintScript(salt=1, length=1, forced_share=0).allowed(())
    forbidden = next(token for token in range(1, VOCABULARY_SIZE) if token not in allowed)
    for token in allowed:
        assert calls_with(token) == ["allows", "accept"]
    for token in (forbidden, END_TOKEN):
        assert calls_with(token) == ["allows", "mask", "accept"]
    assert calls_with(None) == ["mask", "accept"]


def test_a_mask_is_made_where_more_is_forbidden_after_it() -> None:
    allowed = min(ConstraintScript(salt=1, length=1, forced_share=0).allowed(()))
    assert calls_with(allowed, StopRules(min_tokens=1)) == ["mask", "accept"]
    assert calls_with(allowed, StopRules(min_tokens=0)) == ["allows", "accept"]
