"""What a constraint costs by itself: compiling it, asking for it again, and its masks over the model's vocabulary.

Nothing is decoded. A walk takes its tokens as a model would that prefers frequent ones (small ids), and no token is
looked at before its mask is made, as at a temperature above 0. Each round compiles anew, so that its first walk meets a
cold lexer.
"""

import json
import time
from collections.abc import Iterator
from statistics import median, quantiles
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agent.constraint.compiler import ConstraintCompiler
from agent.constraint.matcher import ConstraintVocabulary, LlguidanceMatcher
from agent.llama.vocabulary import LlamaVocabulary
from agent.llama_constraints import open_constraint_vocabulary
from bench import protocol, report
from bench.constraints import CONSTRAINTS
from shared.failures import Failure
from shared.messages_to_agent import ConstraintText

_ROUNDS = 5
_WALKS = 4
_FORCED_AT_ONCE = 32
_SCHEMA_BYTES = 10_000
_MASK_MEDIAN_MS = report.Target(0.1, at_least=False)
_MASK_P99_MS = report.Target(5, at_least=False)
_COMPILE_MS = report.Target(50, at_least=False)
_CACHED_MS = report.Target(1, at_least=False)


def measure(model: protocol.Model, vocabulary: LlamaVocabulary) -> str:
    """One table."""
    constrainable = open_constraint_vocabulary(vocabulary)
    rows = [_row(constrainable, constraint.name, _text_of(constraint.ours["grammar"])) for constraint in CONSTRAINTS]
    rows.append(_row(constrainable, f"json_schema of {_SCHEMA_BYTES // 1000} kB", _large_schema()))
    header = ["constraint", "compile", "again, with its first mask", "mask p50", "mask p99", "writing it p50", "masks"]
    return report.table(f"{model.name}: constraints alone, {vocabulary.size:,} tokens", header, rows)


def _row(vocabulary: ConstraintVocabulary, name: str, constraint: ConstraintText) -> list[str]:
    compile_ms: list[float] = []
    cached_ms: list[float] = []
    mask_ms: list[float] = []
    write_ms: list[float] = []
    for seed in range(_ROUNDS):
        compiler = ConstraintCompiler(vocabulary)
        compile_ms.append(_timed(compiler, constraint)[1])
        for computed, written in _walk(compiler, constraint, vocabulary.size, seed):
            mask_ms.append(computed)
            write_ms.append(written)
        cached_ms.append(_first_mask_ms(compiler, constraint, vocabulary.size))
        compiler.close()
    p99 = quantiles(mask_ms, n=100)[98]
    return [
        name,
        f"{report.spread(compile_ms, ' ms')}, {_COMPILE_MS.verdict(median(compile_ms))}",
        f"{report.spread(cached_ms, ' ms', 2)}, {_CACHED_MS.verdict(median(cached_ms))}",
        f"{median(mask_ms):.3f} ms, {_MASK_MEDIAN_MS.verdict(median(mask_ms))}",
        f"{p99:.2f} ms, {_MASK_P99_MS.verdict(p99)}",
        f"{median(write_ms):.3f} ms",
        f"{len(mask_ms)}",
    ]


def _timed(compiler: ConstraintCompiler, constraint: ConstraintText) -> tuple[LlguidanceMatcher, float]:
    began = time.perf_counter()
    matcher = compiler.compile(constraint)
    if isinstance(matcher, Failure):
        raise SystemExit(f"a constraint of the benchmark was refused: {matcher.message}")
    return matcher, 1e3 * (time.perf_counter() - began)


def _first_mask_ms(compiler: ConstraintCompiler, constraint: ConstraintText, size: int) -> float:
    row = np.zeros(size, dtype=np.float32)
    matcher, compile_ms = _timed(compiler, constraint)
    began = time.perf_counter()
    matcher.mask(row)
    return compile_ms + 1e3 * (time.perf_counter() - began)


def _walk(
    compiler: ConstraintCompiler, constraint: ConstraintText, size: int, seed: int
) -> Iterator[tuple[float, float]]:
    """Milliseconds of each mask of some walks: until it is known, and until the row is cut to it."""
    chance = np.random.default_rng(seed)
    frequency = -np.log(np.arange(1, size + 1, dtype=np.float32))
    for _ in range(_WALKS):
        matcher, _ = _timed(compiler, constraint)
        tokens = 0
        while tokens < protocol.OUTPUT_TOKENS and not matcher.is_finished:
            if forced := matcher.take_forced(_FORCED_AT_ONCE):
                tokens += len(forced)
                continue
            row = _logits(frequency, chance)
            began = time.perf_counter()
            matcher.allows_any()
            computed = time.perf_counter()
            if not matcher.mask(row):  # the library remembers what it has just computed
                raise SystemExit("a constraint of the benchmark broke")
            yield 1e3 * (computed - began), 1e3 * (time.perf_counter() - computed)
            tokens += 1
            if not matcher.accept(int(row.argmax())):
                break  # the end


def _logits(frequency: NDArray[np.float32], chance: np.random.Generator) -> NDArray[np.float32]:
    return frequency + chance.gumbel(size=frequency.size).astype(np.float32)


def _text_of(grammar: dict[str, Any]) -> ConstraintText:
    """As the balancer would hand it on."""
    text = grammar.get("grammar") or grammar.get("pattern") or json.dumps(grammar["schema"])
    return ConstraintText(kind=grammar["type"], text=text, root=grammar.get("root"))


def _large_schema() -> ConstraintText:
    """An order form with as many kinds of lines as fill the size."""
    lines: dict[str, Any] = {}
    while len(json.dumps(lines)) < _SCHEMA_BYTES:
        lines[f"line_{len(lines):03}"] = {
            "type": "object",
            "properties": {
                "article": {"type": "string", "minLength": 1, "maxLength": 40},
                "count": {"type": "integer", "minimum": 1, "maximum": 500},
                "unit": {"enum": ["piece", "metre", "kilogram", "litre"]},
                "price": {"type": "number", "minimum": 0},
            },
            "required": ["article", "count"],
            "additionalProperties": False,
        }
    return ConstraintText(kind="json_schema", text=json.dumps({"type": "object", "properties": lines}))
