"""One step of the engine: the only driver of the scheduler."""

from collections.abc import Callable, Iterable

from agent.core.backend import Backend
from agent.core.commands import EngineCommand
from agent.core.events import EngineEvent, EngineStatistics, StepReport
from agent.core.scheduler import Scheduler
from shared.agent_figures import BATCH_TOKENS_EDGES, STEP_SECONDS_EDGES, Histogram


class EngineStep:
    """Runs on the thread that owns the backend. `publish` is called once per step and must not block."""

    def __init__(
        self,
        backend: Backend,
        scheduler: Scheduler,
        publish: Callable[[StepReport], None],
        clock: Callable[[], float],
    ) -> None:
        """`clock`: monotonic seconds."""
        self._backend = backend
        self._scheduler = scheduler
        self._publish = publish
        self._clock = clock
        self._began = clock()
        self._step_seconds = Histogram(STEP_SECONDS_EDGES)
        self._batch_tokens = Histogram(BATCH_TOKENS_EDGES)

    def advance(self, take_commands: Callable[[], Iterable[EngineCommand]]) -> None:
        """Take commands, plan, decode, commit and sample, publish."""
        started = self._clock()
        self._take(take_commands)
        plan = self._scheduler.plan_next_batch()
        if plan is not None:
            self._scheduler.commit(plan, self._backend.decode(plan), self._backend.logits)
            self._batch_tokens.observe(plan.tokens)
            self._step_seconds.observe(self._clock() - started)
        self._publish(self.report(self._scheduler.take_events()))

    def report(self, events: tuple[EngineEvent, ...]) -> StepReport:
        """Events with the figures as of now."""
        engine = EngineStatistics(self._began, self._step_seconds.read(), self._batch_tokens.read())
        return StepReport(events, self._scheduler.statistics(), engine)

    def _take(self, take_commands: Callable[[], Iterable[EngineCommand]]) -> None:
        # Clear first: an abort that is requested after this belongs to a command that is not taken yet.
        self._backend.clear_abort()
        for command in take_commands():
            self._scheduler.handle(command)
