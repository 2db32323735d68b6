"""llama.cpp's own grammar sampler as a judge of GBNF, in a child process: it crashes and hangs on some grammars.

    with LlamaGrammarOracle(model) as oracle:
        verdict = oracle.judge('root ::= "a"+', "root", ["a", "b"])
        assert verdict.accepted == (True, False)

A child that dies, hangs or wants too much memory is replaced; what it was asked has no verdict.
"""

import ctypes
import json
import os
import resource
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

_ROOT = Path(__file__).resolve().parents[2]
_MOST_MEMORY_BYTES = 2 << 30
_START_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether llama.cpp takes the grammar, and which texts then; None for a text that the vocabulary cannot spell."""

    is_refused: bool
    accepted: tuple[bool | None, ...] = ()


class LlamaGrammarOracle:
    """The parent's end. `judge` may be called any number of times; not from two threads."""

    def __init__(self, model: Path, seconds: float = 5.0) -> None:
        self._model = model
        self._seconds = seconds
        self._child: subprocess.Popen[bytes] | None = None
        self.deaths = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def judge(self, grammar: str, root: str, texts: Sequence[str]) -> Verdict | None:
        """None: llama.cpp crashed, or thought longer than `seconds`."""
        child = self._child or self._start()
        question = json.dumps({"grammar": grammar, "root": root, "texts": list(texts)})
        answer = self._ask(child, question, self._seconds)
        if answer is None:
            self.deaths += 1
            self._end()
            return None
        accepted = answer["accepted"]
        return Verdict(True) if accepted is None else Verdict(False, tuple(accepted))

    def _start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tests.support.llama_grammar_oracle", str(self._model)]
        self._child = subprocess.Popen(
            command,
            cwd=_ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            preexec_fn=_limit_memory,
        )
        if self._read(self._child, _START_SECONDS) is None:
            self._end()
            raise RuntimeError("the oracle did not start")
        return self._child

    def _ask(self, child: subprocess.Popen[bytes], question: str, seconds: float) -> dict[str, Any] | None:
        assert child.stdin is not None
        try:
            child.stdin.write(question.encode("utf-8") + b"\n")
            child.stdin.flush()
        except BrokenPipeError:
            return None
        return self._read(child, seconds)

    def _read(self, child: subprocess.Popen[bytes], seconds: float) -> dict[str, Any] | None:
        """One line of answer; None when the child ends or the time is up."""
        assert child.stdout is not None
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            readable, _, _ = select.select([child.stdout], [], [], max(0.0, deadline - time.monotonic()))
            if readable:
                line = child.stdout.readline()
                answer: dict[str, Any] | None = json.loads(line) if line.endswith(b"\n") else None
                return answer
        return None

    def _end(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        child.kill()
        child.wait()
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except BrokenPipeError:
                    pass  # what was not yet written went with the child


def _limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY_BYTES, _MOST_MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


# The child


def _serve(model: str) -> None:
    from agent.llama.vocabulary import load_vocabulary

    # llama.cpp may print to the standard output itself: the answers get a descriptor of their own.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    with load_vocabulary(model) as lease:
        vocabulary = lease.vocabulary
        print("{}", file=answers, flush=True)
        for line in sys.stdin:
            question = json.loads(line)
            accepted = _judged(vocabulary, question["grammar"], question["root"], question["texts"])
            print(json.dumps({"accepted": accepted}), file=answers, flush=True)


def _judged(vocabulary: Any, grammar: str, root: str, texts: list[str]) -> list[bool | None] | None:
    import llama_cpp

    sampler = llama_cpp.llama_sampler_init_grammar(vocabulary.pointer, grammar.encode("utf-8"), root.encode("utf-8"))
    if not sampler:
        return None
    try:
        return [_accepts(vocabulary, sampler, text) for text in texts]
    finally:
        llama_cpp.llama_sampler_free(sampler)


def _accepts(vocabulary: Any, pristine: Any, text: str) -> bool | None:
    import llama_cpp

    tokens = vocabulary.tokenize(text, add_special=False, parse_special=False)
    if b"".join(vocabulary.token_piece(token) for token in tokens) != text.encode("utf-8"):
        return None
    sampler = llama_cpp.llama_sampler_clone(pristine)
    try:
        for token in tokens:
            # Accepting a token that the grammar does not allow ends the process: ask first.
            if not _allows(sampler, token):
                return False
            llama_cpp.llama_sampler_accept(sampler, token)
        return _allows(sampler, vocabulary.eos_token)
    finally:
        llama_cpp.llama_sampler_free(sampler)


def _allows(sampler: Any, token: int) -> bool:
    import llama_cpp

    candidates = (llama_cpp.llama_token_data * 1)()
    candidates[0] = llama_cpp.llama_token_data(token, 1.0, 0.0)
    row = llama_cpp.llama_token_data_array(candidates, 1, -1, False)
    llama_cpp.llama_sampler_apply(sampler, ctypes.byref(row))
    return bool(candidates[0].logit == 1.0)


if __name__ == "__main__":
    _serve(sys.argv[1])
