"""Threads that compute: counted by cores, and gone when they have done their part."""

import threading

import pytest

from agent.llama.threads import on_a_passing_thread, usable_cores


def test_there_is_at_least_one_core() -> None:
    assert usable_cores() >= 1


def test_what_runs_on_a_passing_thread_leaves_no_thread_behind() -> None:
    used = on_a_passing_thread(threading.current_thread)
    assert used is not threading.current_thread()
    assert not used.is_alive()


def test_what_goes_wrong_on_a_passing_thread_is_raised_here() -> None:
    def fail() -> None:
        raise LookupError("planted")

    with pytest.raises(LookupError, match="planted"):
        on_a_passing_thread(fail)
