"""One step: commands, plan, decode, commit, publish."""

from agent.core.backend import BatchPlan, DecodeOutcome
from agent.core.commands import Cancel, Submit
from agent.core.events import MemberEnded, PromptProgress, StepReport, TokensCommitted
from agent.core.scheduler import Scheduler, SchedulerSettings
from agent.engine.step import EngineStep
from shared.agent_figures import STEP_SECONDS_EDGES
from shared.generation import SamplingParameters
from tests.support.scripted_backend import (
    ScriptedBackend,
    ScriptedVocabulary,
    prompt_with_answer,
    scripted_backend,
)


class Bench:
    """A step and what it published."""

    def __init__(self) -> None:
        self.backend: ScriptedBackend = scripted_backend(cells=100)
        self.reports: list[StepReport] = []
        scheduler = Scheduler(self.backend, ScriptedVocabulary(), SchedulerSettings(2, 8, 8))
        self.now = 100.0
        self.step = EngineStep(self.backend, scheduler, self.reports.append, lambda: self.now)

    def advance(self, *commands: Submit | Cancel) -> StepReport:
        self.step.advance(lambda: commands)
        return self.reports[-1]


def submit(key: str, prompt: list[int], max_tokens: int = 5) -> Submit:
    return Submit(key, tuple(prompt), max_tokens, SamplingParameters(), 1, 1)


def test_a_step_publishes_once_what_it_brought() -> None:
    bench = Bench()
    report = bench.advance(submit("a", prompt_with_answer(12, 5)))
    assert report.events == (PromptProgress("a", 8),)
    assert report.statistics.used_cells == 8
    (event,) = bench.advance().events
    assert isinstance(event, TokensCommitted)
    assert len(bench.reports) == 2


def test_a_command_is_obeyed_before_the_next_decode() -> None:
    bench = Bench()
    bench.advance(submit("a", [1] * 20))
    report = bench.advance(Cancel("a"))
    assert [type(event) for event in report.events] == [MemberEnded]
    assert len(bench.backend.plans) == 1


def test_an_abort_that_was_asked_for_before_the_commands_were_taken_is_over() -> None:
    bench = Bench()
    bench.backend.request_abort()
    bench.advance(submit("a", prompt_with_answer(4, 5)))
    assert bench.backend.outcomes == [DecodeOutcome.DECODED]


def test_an_abort_during_the_decode_is_survived() -> None:
    bench = Bench()
    bench.backend.on_decode = lambda plan: bench.backend.request_abort()
    bench.advance(submit("a", prompt_with_answer(4, 5)))
    bench.backend.on_decode = None
    for _ in range(5):
        bench.advance()
    assert bench.backend.outcomes == [DecodeOutcome.ABORTED] + [DecodeOutcome.DECODED] * 5
    assert any(isinstance(event, MemberEnded) for event in bench.reports[-1].events)


def test_steps_are_timed_from_their_commands_to_their_commit_and_their_tokens_counted() -> None:
    bench = Bench()

    def decode(_: BatchPlan) -> None:
        bench.now += 0.02

    bench.backend.on_decode = decode
    for _ in range(3):
        report = bench.advance(*([submit("a", prompt_with_answer(12, 5))] if not bench.reports else []))
    assert report.engine.began == 100.0
    assert report.statistics.steps == sum(report.engine.step_seconds.counts) == 3
    assert report.engine.step_seconds.counts[STEP_SECONDS_EDGES.index(0.025)] == 3
    assert report.engine.batch_tokens.total == 8 + 4 + 1


def test_commands_without_a_decode_are_no_step() -> None:
    bench = Bench()
    assert sum(bench.advance(Cancel("nobody")).engine.step_seconds.counts) == 0
