"""A trial's end becomes a sentence. The processes themselves are in tests/integration."""

import os
import signal

import pytest

from agent.llama.errors import ContextCannotBeCreated, ModelCannotBeLoaded
from agent.llama.trial_process import (
    CONTEXT_REFUSED,
    LINE_CHARACTERS,
    MODEL_REFUSED,
    TrialOrder,
    raise_verdict,
    trial_command,
)


def sentence(status: int | None, output: str) -> str:
    with pytest.raises(ModelCannotBeLoaded) as caught:
        raise_verdict("/m.gguf", status, output)
    return str(caught.value)


def test_a_good_end_says_nothing_whatever_was_logged() -> None:
    raise_verdict("/m.gguf", 0, "a warning\n")


def test_a_refusal_is_the_last_line_as_it_was_written() -> None:
    assert sentence(MODEL_REFUSED, "noise\n/m.gguf: no vocabulary\n\n") == "/m.gguf: no vocabulary"
    with pytest.raises(ContextCannotBeCreated, match=r"^a Q4_0 V cache$"):
        raise_verdict("/m.gguf", CONTEXT_REFUSED, "a Q4_0 V cache\n")


def test_a_crash_names_the_signal_and_the_assertion_without_the_folders_of_who_compiled_it() -> None:
    output = "loading\n/tmp/pip-build/llama.cpp/src/llama-vocab.cpp:2544: GGML_ASSERT(a == b) failed\n"
    said = sentence(-signal.SIGABRT, output)
    assert said == "/m.gguf: it makes llama.cpp crash (SIGABRT): llama-vocab.cpp:2544: GGML_ASSERT(a == b) failed"


@pytest.mark.parametrize(
    ("status", "part"),
    [(-signal.SIGILL, "(SIGILL)"), (-signal.SIGRTMIN - 5, "(signal "), (None, "within 60 s"), (1, "status 1")],
)
def test_every_other_end_is_a_sentence_too_with_or_without_a_last_line(status: int | None, part: str) -> None:
    assert part in sentence(status, "")
    assert sentence(status, "ImportError: x\n").endswith(": ImportError: x")


def test_a_refusal_without_a_line_still_says_something() -> None:
    assert "status 3" in sentence(MODEL_REFUSED, " \n")


def test_the_line_is_short_and_printable() -> None:
    said = sentence(-signal.SIGABRT, "\x1b[31m" + "x" * 10_000)
    assert said.isprintable()
    assert len(said) < LINE_CHARACTERS + 100


def test_an_order_reaches_the_child_as_it_was_given_strange_names_included() -> None:
    order = TrialOrder("/m\udcff \N{SNOWMAN}\n'.gguf", computes=True, context_size=64, n_batch=1, k_cache_dtype="Q8_0")
    *_, text = trial_command(order)
    assert text.isascii()
    assert TrialOrder.from_text(text) == order
    assert order.parent == os.getpid()
