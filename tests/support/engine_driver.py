"""Drives a scheduler over a scripted backend as the engine's step does, and checks invariants after each step."""

from dataclasses import dataclass, field
from typing import Any

from agent.core.backend import BatchPlan, DecodeOutcome, LogprobsWanted
from agent.core.commands import Cancel, MemberKey, Submit
from agent.core.events import EngineEvent, MemberEnded, PromptLogprobs, PromptProgress, TokensCommitted
from agent.core.scheduler import Scheduler, SchedulerSettings
from agent.core.stop_rules import StopRules
from agent.core.stop_search import StopStrings
from shared.failures import FailureKind
from shared.generation import FinishReason, SamplingParameters
from tests.support.expected_answers import ExpectedAnswer, expected_with_rules
from tests.support.scripted_backend import ScriptedBackend, ScriptedVocabulary, expected_answer
from tests.support.scripted_constraint import ConstraintScript, ScriptedMatcher, expected_constrained

SAMPLING = SamplingParameters(temperature=0.0)


@dataclass(frozen=True, slots=True)
class RulesOfRequest:
    """`strings` are those of `stops`."""

    stops: StopRules | None = None
    strings: tuple[str, ...] = ()
    logprobs: LogprobsWanted | None = None

    @classmethod
    def of(cls, *strings: str, logprobs: LogprobsWanted | None = None, **others: Any) -> "RulesOfRequest":
        stops = StopRules(StopStrings(strings) if strings else None, **others)
        return cls(stops, strings, logprobs)


@dataclass(slots=True)
class EngineDriver:
    """`submit`, `cancel` and `step` on one scheduler; what came of each key can be asked afterwards."""

    backend: ScriptedBackend
    slots: int = 3
    chunk: int = 8
    lone_chunk: int = 0  # the same
    store_bytes: int = 0
    draft_tokens: int = 0
    scheduler: Scheduler = field(init=False)
    submitted: dict[MemberKey, Submit] = field(default_factory=dict)
    rules: dict[MemberKey, RulesOfRequest] = field(default_factory=dict)
    events: list[EngineEvent] = field(default_factory=list)
    arrivals: int = 0

    def __post_init__(self) -> None:
        settings = SchedulerSettings(self.slots, self.chunk, self.lone_chunk, self.store_bytes, self.draft_tokens)
        self.scheduler = Scheduler(self.backend, ScriptedVocabulary(), settings)

    def submit(
        self,
        key: MemberKey,
        prompt: list[int],
        max_tokens: int = 5,
        priority: int = 0,
        script: ConstraintScript | None = None,
        rules: RulesOfRequest | None = None,
        adapter: str | None = None,
    ) -> None:
        self.arrivals += 1
        matcher = script.matcher() if script else None
        rules = rules or RulesOfRequest()
        command = Submit(
            *(key, tuple(prompt), max_tokens, SAMPLING, 1, self.arrivals, priority, matcher),
            stops=rules.stops,
            logprobs=rules.logprobs,
            adapter=adapter,
        )
        self.rules[key] = rules
        self.submitted[key] = command
        self.scheduler.handle(command)

    def cancel(self, key: MemberKey) -> None:
        self.scheduler.handle(Cancel(key))

    def step(self) -> DecodeOutcome | None:
        """One step; None when there was nothing to decode."""
        plan = self.scheduler.plan_next_batch()
        self.scheduler.check_invariants()
        outcome = None
        if plan is not None:
            adapters = {one.adapter for one in self.submitted.values() if one.key in self._keys_of(plan)}
            assert adapters <= {plan.adapter}, "a batch mixes adapters"
            outcome = self.backend.decode(plan)
            self.scheduler.commit(plan, outcome, self.backend.logits)
        self.events += self.scheduler.take_events()
        self.check_invariants()
        return outcome

    def _keys_of(self, plan: BatchPlan) -> set[MemberKey]:
        ids = {run.sequence_id for run in plan.runs}
        return {one.key for one in self.scheduler._residency.attached() if one.sequence_id in ids}

    def run(self, most_steps: int = 3000) -> int:
        """Step until no member is open; returns how many steps it took."""
        for count in range(most_steps):
            if self.step() is None and not self.scheduler.has_work:
                return count
        raise AssertionError(f"still busy after {most_steps} steps: {self.scheduler!r}")

    def check_invariants(self) -> None:
        self.scheduler.check_invariants()
        statistics = self.scheduler.statistics()
        assert statistics.used_cells == len(self.backend.cells), "predicted and real cells differ"
        assert 0 <= statistics.accepted_tokens <= statistics.drafted_tokens
        keys = [event.key for event in self.events if isinstance(event, MemberEnded)]
        assert len(keys) == len(set(keys)), "a key ended twice"

    # What came of it

    def end(self, key: MemberKey) -> MemberEnded:
        """The end of this key; exactly one."""
        (end,) = [event for event in self.events if isinstance(event, MemberEnded) and event.key == key]
        return end

    def has_ended(self, key: MemberKey) -> bool:
        return any(isinstance(event, MemberEnded) and event.key == key for event in self.events)

    def answer(self, key: MemberKey) -> tuple[int, ...]:
        """Tokens that were committed for this key, in order and without a gap."""
        tokens: list[int] = []
        for event in self.events:
            if isinstance(event, TokensCommitted) and event.key == key:
                assert event.first_token_index == len(tokens)
                tokens.extend(event.token_ids)
        return tuple(tokens)

    def text(self, key: MemberKey) -> str:
        return "".join(event.text for event in self.events if isinstance(event, TokensCommitted) and event.key == key)

    def progress(self, key: MemberKey) -> list[int]:
        """What prompt progress reported, in order."""
        return [one.evaluated_tokens for one in self.events if isinstance(one, PromptProgress) and one.key == key]

    def expected(self, key: MemberKey) -> tuple[int, ...]:
        """What this request answers when it runs alone."""
        request, limit = self.submitted[key], self.backend.limits.request_limit_tokens
        if isinstance(request.constraint, ScriptedMatcher):
            return expected_constrained(
                request.prompt, request.constraint.script, request.max_tokens, limit, request.adapter
            )[0]
        return expected_answer(request.prompt, request.max_tokens, limit, request.adapter)

    def assert_exact(self, key: MemberKey) -> None:
        """Whatever came out of it is what a solo run gives (a beginning of it, unless it finished), and was counted."""
        if self.rules[key] != RulesOfRequest():
            self._assert_exact_with_rules(key)
            return
        end, answer = self.end(key), self.answer(key)
        self._assert_right_ending(key, end)
        if answer or end.failure is None:
            expected = self.expected(key)
            is_whole = end.finish_reason in (FinishReason.STOP, FinishReason.LENGTH)
            assert answer == (expected if is_whole else expected[: len(answer)]), key
        assert end.usage.content_tokens == len(answer)
        assert end.usage.prompt_tokens == len(self.submitted[key].prompt)
        most_cached = end.usage.prompt_tokens - (self.submitted[key].constraint is None)
        assert end.usage.cached_prompt_tokens <= max(0, most_cached)

    def _assert_exact_with_rules(self, key: MemberKey) -> None:
        request, rules, end, answer = self.submitted[key], self.rules[key], self.end(key), self.answer(key)
        if not answer and end.failure is not None:
            return  # refused, or it failed before its first token
        script = request.constraint.script if isinstance(request.constraint, ScriptedMatcher) else None
        limits = (request.max_tokens, self.backend.limits.request_limit_tokens)
        stops = rules.stops or StopRules()
        expected = expected_with_rules(request.prompt, limits, script, stops, rules.strings, request.adapter)
        text = self.text(key)
        kind = end.failure and end.failure.kind
        if end.finish_reason in (FinishReason.STOP, FinishReason.LENGTH):
            assert (answer, end.finish_reason) == (tuple(expected.tokens), expected.ending), key
            assert (text, end.matched_stop) == (expected.text, expected.matched_stop), key
        else:
            assert answer == tuple(expected.tokens[: len(answer)]), key
            assert expected.text.startswith(text), key
            assert kind != FailureKind.GRAMMAR_REJECTED_OUTPUT or expected.ending == kind, key
        assert end.usage.content_tokens == len(answer)
        if rules.logprobs is not None:
            self._assert_logprobs(key, rules.logprobs, expected)

    def _assert_logprobs(self, key: MemberKey, wanted: LogprobsWanted, expected: ExpectedAnswer) -> None:
        """One place for each token, in order; the prompt's all before the answer's, and none of them from the cache."""
        prompt, end, answer = self.submitted[key].prompt, self.end(key), self.answer(key)
        told = [event.logprobs for event in self.events if isinstance(event, TokensCommitted) and event.key == key]
        told = told[: len(answer)]  # behind them only text that was held back
        assert told == [expected.place(len(prompt) + i, token, wanted) for i, token in enumerate(answer)], key
        of_prompt = [place for e in self.events if isinstance(e, PromptLogprobs) and e.key == key for place in e.places]
        start = len(prompt) if wanted.prompt_start is None else wanted.prompt_start
        owed = [expected.place(i, prompt[i], wanted) for i in range(start, len(prompt))] if of_prompt else []
        assert of_prompt == owed[: len(of_prompt)], key
        if answer:
            assert len(of_prompt) == max(0, len(prompt) - start), key
        assert end.usage.cached_prompt_tokens <= max(0, start - 1), key

    def _assert_right_ending(self, key: MemberKey, end: MemberEnded) -> None:
        """A constrained answer that was not disturbed ends in the one way that its script determines."""
        request = self.submitted[key]
        if not isinstance(request.constraint, ScriptedMatcher) or end.finish_reason is FinishReason.CANCELLED:
            return
        kind = end.failure and end.failure.kind
        if kind in (None, FailureKind.GRAMMAR_REJECTED_OUTPUT):
            limit = self.backend.limits.request_limit_tokens
            expected = expected_constrained(
                request.prompt, request.constraint.script, request.max_tokens, limit, request.adapter
            )[1]
            assert expected == (kind or end.finish_reason), key
