"""The thread that owns the context. Commands come in through one inbox, reports go out through one callback."""

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from queue import Empty, SimpleQueue

from agent.core.backend import Backend, Vocabulary
from agent.core.commands import EngineCommand, Submit
from agent.core.events import MemberEnded, StepReport
from agent.core.scheduler import Scheduler, SchedulerSettings
from agent.engine.step import EngineStep
from shared.failures import Failure, FailureKind
from shared.generation import Usage

logger = logging.getLogger(__name__)

STOPPED = Failure(FailureKind.SHUTTING_DOWN, "The agent stopped before this request was finished.")
CRASHED = Failure(FailureKind.ENGINE_FAILED, "The engine failed; the agent's log has the cause.")


@dataclass(frozen=True, slots=True)
class EngineCallbacks:
    """Called from the engine's thread (`publish` also by `submit` on an engine that has ended).

    publish: one report per step. crashed: the engine has ended by an error, after every request was ended. Neither
    may block or raise.
    """

    publish: Callable[[StepReport], None]
    crashed: Callable[[BaseException], None]


class EngineThread:
    """Steps while there is work, sleeps while there is none. Every submitted key ends exactly once, come what may.

    The backend stays its maker's: close it after `join`.
    """

    def __init__(
        self,
        backend: Backend,
        vocabulary: Vocabulary,
        settings: SchedulerSettings,
        callbacks: EngineCallbacks,
        clock: Callable[[], float],
    ) -> None:
        """`clock`: monotonic seconds."""
        self._backend = backend
        self._callbacks = callbacks
        self._clock = clock
        self._scheduler = Scheduler(backend, vocabulary, settings)
        self._step = EngineStep(backend, self._scheduler, callbacks.publish, clock)
        self._inbox: SimpleQueue[EngineCommand | None] = SimpleQueue()  # None only wakes the thread up
        self._taken: deque[EngineCommand] = deque()  # out of the inbox, not handled yet; the thread's own
        self._stop_failure: Failure | None = None
        self._ended_with: Failure | None = None
        self._is_idle = True
        self._last_advance = clock()
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)

    def __repr__(self) -> str:
        state = "ended" if self._ended_with else "idle" if self.is_idle else "busy"
        return f"<EngineThread {state}>"

    # From any thread; none of these waits for the engine, so an event loop may call them (`join` may not)

    def start(self) -> None:
        """Start the thread; once."""
        self._thread.start()

    def submit(self, command: EngineCommand) -> None:
        """Put a command into the inbox. After the engine's end a request is answered with its failure at once."""
        self._inbox.put(command)
        # Looked at after the put, and set before the thread empties the inbox for the last time: whatever the order,
        # one of the two takes the command out.
        if self._ended_with is not None:
            self._refuse(self._drain_inbox(), self._ended_with)

    def stop(self, failure: Failure = STOPPED) -> None:
        """End every open request with `failure`, soon (a running decode is aborted), then the thread. Idempotent."""
        self._stop_failure = self._stop_failure or failure
        self._inbox.put(None)
        self._backend.request_abort()

    def join(self, timeout_seconds: float | None = None) -> bool:
        """Wait for the thread's end; False when it still runs after the time-out."""
        self._thread.join(timeout_seconds)
        return not self._thread.is_alive()

    @property
    def is_idle(self) -> bool:
        """Whether the thread sleeps because no request is open and the inbox is empty."""
        return self._is_idle and self._inbox.empty()

    @property
    def last_advance(self) -> float:
        """Clock reading of the last step's end, or of the last awakening. Of no meaning while idle."""
        return self._last_advance

    # The thread

    def _run(self) -> None:
        failure, error = CRASHED, None
        try:
            failure = self._step_until_stopped()
        except BaseException as caught:  # whatever it was: requests must end, and somebody must hear of it
            logger.exception("the engine failed")
            error = caught
        try:
            self._end_everything(failure)
        except BaseException as caught:
            logger.exception("the engine's last report failed")
            error = error or caught
        if error is not None:
            self._callbacks.crashed(error)

    def _step_until_stopped(self) -> Failure:
        while self._stop_failure is None:
            if self._scheduler.has_work or self._taken or not self._inbox.empty():
                self._step.advance(self._take_commands)
                self._last_advance = self._clock()
            else:
                self._sleep()
        return self._stop_failure

    def _sleep(self) -> None:
        """Until something is put into the inbox."""
        self._is_idle = True
        command = self._inbox.get()
        self._last_advance = self._clock()
        self._is_idle = False
        if command is not None:
            self._taken.append(command)

    def _take_commands(self) -> Iterator[EngineCommand]:
        """What has arrived. A command counts as taken until it is handled, so that no failure can lose a request."""
        self._taken.extend(self._drain_inbox())
        while self._taken:
            yield self._taken[0]
            self._taken.popleft()

    def _drain_inbox(self) -> list[EngineCommand]:
        commands = []
        for _ in range(self._inbox.qsize()):
            try:
                commands.append(self._inbox.get_nowait())
            except Empty:  # two threads may drain after the end
                break
        return [command for command in commands if command is not None]

    def _end_everything(self, failure: Failure) -> None:
        self._ended_with = failure  # from here on `submit` answers by itself
        self._is_idle = True
        left = [*self._taken, *self._drain_inbox()]
        self._taken.clear()
        self._scheduler.abandon(failure)
        self._callbacks.publish(self._step.report(self._scheduler.take_events()))
        self._refuse(left, failure)

    def _refuse(self, commands: list[EngineCommand], failure: Failure) -> None:
        ends = tuple(
            MemberEnded(command.key, None, Usage(prompt_tokens=len(command.prompt)), failure)
            for command in commands
            if isinstance(command, Submit)
        )
        if ends:
            self._callbacks.publish(self._step.report(ends))
