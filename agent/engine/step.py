"""One step of the engine: the only driver of the scheduler."""

from collections.abc import Callable, Iterable

from agent.core.backend import Backend
from agent.core.commands import EngineCommand
from agent.core.events import StepReport
from agent.core.scheduler import Scheduler


class EngineStep:
    """Runs on the thread that owns the backend. `publish` is called once per step and must not block."""

    def __init__(self, backend: Backend, scheduler: Scheduler, publish: Callable[[StepReport], None]) -> None:
        self._backend = backend
        self._scheduler = scheduler
        self._publish = publish

    def advance(self, take_commands: Callable[[], Iterable[EngineCommand]]) -> None:
        """Take commands, plan, decode, commit and sample, publish."""
        self._take(take_commands)
        plan = self._scheduler.plan_next_batch()
        if plan is not None:
            self._scheduler.commit(plan, self._backend.decode(plan), self._backend.logits)
        self._publish(StepReport(self._scheduler.take_events(), self._scheduler.statistics()))

    def _take(self, take_commands: Callable[[], Iterable[EngineCommand]]) -> None:
        # Clear first: an abort that is requested after this belongs to a command that is not taken yet.
        self._backend.clear_abort()
        for command in take_commands():
            self._scheduler.handle(command)
