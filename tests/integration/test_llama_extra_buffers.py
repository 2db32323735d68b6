"""A build whose AMX kernels end the process is found out by another process, and said."""

import sys

import llama_cpp
import pytest

from agent.llama import extra_buffers
from agent.llama.extra_buffers import PROBE, extra_buffers_work, survives

DIES = (sys.executable, "-c", "import os, signal; os.kill(os.getpid(), signal.SIGILL)")


def test_the_build_that_the_project_makes_survives_the_probe() -> None:
    assert survives(PROBE)


def test_a_build_without_such_kernels_is_not_probed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llama_cpp, "llama_print_system_info", lambda: b"AVX512 = 1 | ")
    monkeypatch.setattr(extra_buffers, "PROBE", DIES)
    assert extra_buffers_work.__wrapped__()


def test_a_broken_build_goes_on_without_them_and_the_log_says_how_to_mend_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(llama_cpp, "llama_print_system_info", lambda: b"AVX512 = 1 | AMX_INT8 = 1 | ")
    monkeypatch.setattr(extra_buffers, "PROBE", DIES)
    assert not extra_buffers_work.__wrapped__()
    assert "-fno-tree-dse -fno-dse" in caplog.text
    monkeypatch.setattr(extra_buffers, "PROBE", ("/nowhere/python",))
    assert not extra_buffers_work.__wrapped__()
