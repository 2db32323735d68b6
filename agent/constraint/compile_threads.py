"""A few threads with a big stack. One that is at a job for too long is left alone with it, and another takes its place.

Compiling cannot be interrupted: neither llguidance nor a thread of Python can be told to stop. So a job that takes too
long is waited for by nobody, and there may only be so many of those.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable

logger = logging.getLogger(__name__)

IDLE_SECONDS = 1.0
JOIN_SECONDS = 1.0


class Job:
    """One call to be made. Its state belongs to `CompileThreads`."""

    __slots__ = ("is_left_alone", "is_running", "work")

    def __init__(self, work: Callable[[], None]) -> None:
        self.work = work
        self.is_running = False
        self.is_left_alone = False


def _nothing() -> None:
    """What is left to do of a job that was done."""


class CompileThreads:
    """Runs jobs in the order of their arrival, `threads` at a time. Usable from any thread."""

    def __init__(self, threads: int, overdue_threads: int, stack_bytes: int) -> None:
        self._most = threads
        self._most_overdue = overdue_threads
        self._stack_bytes = stack_bytes
        self._changed = threading.Condition()
        self._jobs: deque[Job] = deque()
        self._threads: set[threading.Thread] = set()
        self._idle = 0
        self._left_alone = 0
        self._is_closed = False

    def __repr__(self) -> str:
        return f"<CompileThreads {len(self._threads)} threads, {self._left_alone} overdue, {len(self._jobs)} waiting>"

    @property
    def left_alone(self) -> int:
        """Jobs that run and that nobody waits for."""
        return self._left_alone

    def submit(self, work: Callable[[], None]) -> Job:
        """Have `work` called soon; it must not raise. Raises RuntimeError after `close`."""
        job = Job(work)
        with self._changed:
            if self._is_closed:
                raise RuntimeError("the compile threads are closed")
            self._jobs.append(job)
            if self._idle:
                self._changed.notify()
            self._start_if_needed()
        return job

    def leave_alone(self, job: Job) -> bool:
        """Nobody waits for the job any more. False: it had not begun and never will."""
        with self._changed:
            if job in self._jobs:
                self._jobs.remove(job)
                return False
            if job.is_running and not job.is_left_alone and self._left_alone < self._most_overdue:
                job.is_left_alone = True
                self._left_alone += 1
                self._start_if_needed()
        return True

    def close(self) -> None:
        """Take no more jobs, forget those that wait, and let the threads end; one that is at work ends after it."""
        with self._changed:
            self._is_closed = True
            self._jobs.clear()
            self._changed.notify_all()
            threads = [thread for thread in self._threads if thread is not threading.current_thread()]
        deadline = time.monotonic() + JOIN_SECONDS
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    # Private

    def _start_if_needed(self) -> None:
        if len(self._jobs) > self._idle and len(self._threads) - self._left_alone < self._most:
            # No daemon: a process that ends while one is inside llguidance dies of a segmentation fault. So they end
            # by themselves when there is nothing to do.
            thread = threading.Thread(target=self._run, name="constraint compiler")
            self._threads.add(thread)
            with _StackSize(self._stack_bytes):
                thread.start()

    def _run(self) -> None:
        job: Job | None = None
        while (job := self._next_after(job)) is not None:
            # Taken out: whoever keeps the job would keep all that the work knows of, itself perhaps among it.
            work, job.work = job.work, _nothing
            try:
                work()
            except BaseException:
                logger.exception("a compile thread's work failed")
            del work

    def _next_after(self, done: Job | None) -> Job | None:
        """The next job, waited for; None: this thread is to end."""
        with self._changed:
            if done is not None:
                done.is_running = False
                self._left_alone -= done.is_left_alone
            if not self._jobs and not self._is_closed and not self._is_superfluous():
                self._idle += 1
                self._changed.wait(IDLE_SECONDS)
                self._idle -= 1
            if not self._jobs or self._is_superfluous():
                self._threads.discard(threading.current_thread())
                return None
            job = self._jobs.popleft()
            job.is_running = True
            return job

    def _is_superfluous(self) -> bool:
        return len(self._threads) - self._left_alone > self._most


class _StackSize:
    """For the thread that is started inside. The setting is the process's: another thread that starts at the same
    moment may get a big stack too, of which it touches nothing."""

    def __init__(self, size: int) -> None:
        self._size = size

    def __enter__(self) -> None:
        self._before = threading.stack_size(self._size)

    def __exit__(self, *_: object) -> None:
        threading.stack_size(self._before)
