"""Jobs run in their order; one that takes too long is left alone, and its place is taken, so many times and no more."""

import threading
import time
import weakref
from collections.abc import Callable, Iterator

import pytest

from agent.constraint.compile_threads import CompileThreads

SECONDS = 10.0


class Gate:
    """Work that ends when the test opens the gate."""

    def __init__(self) -> None:
        self.began = threading.Event()
        self.may_end = threading.Event()
        self.ended = threading.Event()

    def __call__(self) -> None:
        self.began.set()
        assert self.may_end.wait(SECONDS)
        self.ended.set()


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


@pytest.fixture
def threads() -> Iterator[CompileThreads]:
    made = CompileThreads(threads=1, overdue_threads=1, stack_bytes=16 << 20)
    yield made
    made.close()


def test_jobs_run_one_after_another_in_their_order(threads: CompileThreads) -> None:
    order: list[int] = []
    last = threading.Event()
    for number in range(5):
        threads.submit(lambda number=number: order.append(number))  # type: ignore[misc]
    threads.submit(last.set)
    assert last.wait(SECONDS)
    assert order == [0, 1, 2, 3, 4]


def test_a_job_left_alone_makes_place_for_the_next(threads: CompileThreads) -> None:
    stuck, other = Gate(), Gate()
    job = threads.submit(stuck)
    assert stuck.began.wait(SECONDS)
    threads.submit(other)
    assert threads.leave_alone(job)
    assert other.began.wait(SECONDS)
    assert threads.left_alone == 1
    stuck.may_end.set()
    other.may_end.set()
    assert stuck.ended.wait(SECONDS)
    assert other.ended.wait(SECONDS)
    wait_until(lambda: threads.left_alone == 0)


def test_only_so_many_are_left_alone(threads: CompileThreads) -> None:
    first, second, third = Gate(), Gate(), Gate()
    jobs = [threads.submit(first)]
    assert first.began.wait(SECONDS)
    jobs.append(threads.submit(second))
    threads.leave_alone(jobs[0])
    assert second.began.wait(SECONDS)
    threads.submit(third)
    assert threads.leave_alone(jobs[1])
    assert threads.left_alone == 1
    assert not third.began.is_set()
    first.may_end.set()
    second.may_end.set()
    assert third.began.wait(SECONDS)
    third.may_end.set()


def test_a_job_that_nobody_waits_for_never_begins(threads: CompileThreads) -> None:
    stuck, unwanted, wanted = Gate(), Gate(), Gate()
    threads.submit(stuck)
    assert stuck.began.wait(SECONDS)
    job = threads.submit(unwanted)
    threads.submit(wanted)
    assert not threads.leave_alone(job)
    stuck.may_end.set()
    assert wanted.began.wait(SECONDS)
    wanted.may_end.set()
    assert not unwanted.began.is_set()


def test_work_that_raises_does_not_end_its_thread(threads: CompileThreads, caplog: pytest.LogCaptureFixture) -> None:
    done = threading.Event()
    threads.submit(lambda: 1 // 0)  # type: ignore[arg-type]
    threads.submit(done.set)
    assert done.wait(SECONDS)
    assert "a compile thread's work failed" in caplog.text


def test_the_stack_size_of_other_threads_stays(threads: CompileThreads) -> None:
    done = threading.Event()
    threads.submit(done.set)
    assert done.wait(SECONDS)
    assert threading.stack_size() == 0


def test_nothing_is_taken_after_the_end(threads: CompileThreads) -> None:
    threads.close()
    with pytest.raises(RuntimeError):
        threads.submit(lambda: None)


def test_a_job_that_was_done_keeps_nothing_of_its_work() -> None:
    class Compiled:
        pass

    threads = CompileThreads(1, 0, 1 << 20)
    compiled, done = Compiled(), threading.Event()
    kept = weakref.ref(compiled)
    job = threads.submit(lambda held=compiled: done.set())  # type: ignore[misc]
    del compiled
    assert done.wait(10)
    threads.close()
    assert kept() is None
    assert not job.is_running
